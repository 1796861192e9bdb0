// Types that files of the page share. Browsers never load this file.

declare global {
  type State = Awaited<ReturnType<typeof import("../src/process/app/state-page.ts").readState>>;
  /** What the address names. */
  type View = {
    /** Whose keys and chart are shown. */
    rule: string;
    /** Of the sheet's descriptor. */
    domain: string;
    /** The descriptor in the sheet. */
    explain: string;
    /** A key that has no descriptor, in the sheet. */
    key: string;
    find: string;
    /** Of rules. */
    sort: string;
    /** Of keys. */
    order: string;
    /** Of keys. */
    window: string;
    /** The domain all of whose rules are shown. */
    all: string;
    /** How many rules are passed over. */
    from: string;
    /** Of charts. */
    span: string;
    /** Of times. */
    zone: string;
  };
  type Server = import("./ask.mjs").Server;
  /** Null samples are not known. The oldest come first. */
  type Samples = readonly (number | null)[];
  type CallHistory = import("../src/operate/telemetry/rate-history.ts").HistoryView & {
    readonly events: ReturnType<import("../src/operate/telemetry/event-book.ts").EventBook["list"]>;
  };
  type RuleRows = import("../src/operate/http/rule-rows.ts").RuleRows;
  type ExplainReport = import("../src/engine/rules/explain-report.ts").ExplainReport;
  type DescriptorReport = import("../src/engine/rules/explain-report.ts").DescriptorReport;
  type RuntimeLimitReport = import("../src/engine/rules/explain-report.ts").RuntimeLimitReport;
  type TopKey = import("../src/operate/telemetry/top/top-view.ts").TopKey & {
    readonly runtime_limit?: RuntimeLimitReport;
  };
  type TopAnswer = Omit<import("../src/operate/telemetry/top/top-view.ts").TopView, "keys"> & {
    readonly keys: readonly TopKey[];
  };
  type SetAnswer = import("../src/operate/http/limit-pages.ts").SetAnswer;
  type Bucket = {
    descriptor: number | "global_limit";
    rule: string;
    bucket: string;
    burst: number;
    remaining: number;
    wait_seconds: number | null;
    reset_seconds: number;
  };
  type Entry = { key: string; value?: string; value_base64?: string };
  type Caller = { domain: string; entries: readonly Entry[] };
  type Action = "Raise" | "Block" | "Exempt" | "Unset" | "Reset";
  type Act = (action: Action, caller: Caller) => void;
  type Outcome = { isDone: boolean; says: string; colour: string; now?: string };
  /** `done`: the dialog was closed after a change. */
  type Tell = { done: () => void; refused: (error: unknown) => void };
}

export {};
