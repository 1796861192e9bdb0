// The options of `headgate test`.

/** How results are printed. */
export const TEST_FORMATS = ["text", "tap", "junit", "github", "json"] as const;
type TestFormat = (typeof TEST_FORMATS)[number];

export interface TestFlags {
  readonly rules?: string;
  readonly format: TestFormat;
  readonly requireCoverage?: true;
  readonly watch?: true;
}
