// What the container image holds, built into a folder by the same script and started from there by nobody in particular.

import { execFile, spawnSync } from "node:child_process";
import { chmod, lstat, readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PACKAGES } from "../support/own-packages.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { askOnce, openClient } from "../support/test-app.ts";

const ROOT = resolve(import.meta.dirname, "../..");
/** The user that the image names. */
const UID = 10_801;
const BUILD_MS = 120_000;
const isRoot = process.getuid?.() === 0;
const asNobody = isRoot ? { uid: UID, gid: UID } : {};

interface BillOfMaterials {
  readonly components: readonly {
    readonly name: string;
    readonly version: string;
    readonly hashes?: readonly object[];
    readonly licenses?: readonly object[];
  }[];
}

interface LockFile {
  readonly packages: Readonly<
    Record<
      string,
      { readonly version: string; readonly dev?: boolean; readonly devOptional?: boolean; readonly link?: boolean }
    >
  >;
}

interface Manifest {
  readonly imports: Readonly<Record<string, { readonly default: string }>>;
}

/** Whether only tests need a package, or they and an optional peer of the client. */
function isForTests(entry: LockFile["packages"][string] | undefined): boolean {
  return entry?.dev === true || entry?.devOptional === true;
}

let folder: string;
let digest: string;

async function build(): Promise<{ folder: string; digest: string }> {
  const out = temporaryFolder("headgate-image");
  const script = join(ROOT, "deploy/build-image-folder.mjs");
  const { stdout } = await promisify(execFile)(process.execPath, [script, out], { cwd: ROOT });
  return { folder: out, digest: /sha256:[0-9a-f]{64}/.exec(stdout)?.[0] ?? stdout };
}

/** Every path below `root` with what must not change while the service runs from it. */
async function listing(root: string): Promise<string[]> {
  const paths = ["", ...(await readdir(root, { recursive: true, encoding: "utf8" }))];
  return Promise.all(
    paths.sort().map(async (path) => {
      const { mode, size, mtimeMs, uid } = await lstat(join(root, path));
      return `${mode.toString(8)} ${uid} ${size} ${mtimeMs} ${path}`;
    }),
  );
}

beforeAll(async () => {
  ({ folder, digest } = await build());
}, BUILD_MS);

describe("the image's folder", () => {
  test(
    "is the same whenever it is built from the same sources",
    async () => {
      const again = await build();
      expect(again.digest).toBe(digest);
    },
    BUILD_MS,
  );

  test("holds production dependencies and optional peers only, and nothing that others may write or that gains rights", async () => {
    const manifest = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as Record<string, object>;
    const shipped = { ...manifest.dependencies, ...manifest.peerDependencies };
    for (const name of Object.keys(shipped)) {
      await expect(lstat(join(folder, "app/node_modules", name)), name).resolves.toBeDefined();
    }
    // What a dependency needs itself is there, whatever tests use it for.
    const { packages } = JSON.parse(await readFile(join(ROOT, "package-lock.json"), "utf8")) as LockFile;
    const tools = Object.keys(manifest.devDependencies ?? {}).filter(
      (name) => !(name in shipped) && isForTests(packages[`node_modules/${name}`]),
    );
    for (const name of tools.filter((name) => !name.startsWith("@types/"))) {
      await expect(lstat(join(folder, "app/node_modules", name)), name).rejects.toThrow("ENOENT");
    }
    const modes = new Set((await listing(folder)).map((line) => line.split(" ")[0]));
    expect([...modes].toSorted()).toEqual(["100644", "100755", "120777", "40755"]);
  });

  test("says in sbom.cdx.json which packages it holds, all of them and no others, with their hashes", async () => {
    const bill = JSON.parse(await readFile(join(folder, "app/sbom.cdx.json"), "utf8")) as BillOfMaterials;
    const lock = JSON.parse(await readFile(join(ROOT, "package-lock.json"), "utf8")) as LockFile;
    const shipped = Object.entries(lock.packages).filter(
      ([path, entry]) =>
        path.startsWith("node_modules/@opentelemetry/") ||
        (path.startsWith("node_modules/") && !isForTests(entry) && entry.link !== true),
    );
    const names = shipped.map(([path, { version }]) => `${path.split("node_modules/").at(-1)}@${version}`);
    expect(bill).toMatchObject({ bomFormat: "CycloneDX", metadata: { component: { name: "headgate" } } });
    expect(bill.components.map(({ name, version }) => `${name}@${version}`).toSorted()).toEqual(
      [...new Set(names)].toSorted(),
    );
    for (const { name, hashes, licenses } of bill.components) {
      expect(hashes?.[0], name).toMatchObject({ alg: "SHA-512", content: expect.stringMatching(/^[0-9a-f]{128}$/) });
      expect(licenses, name).toHaveLength(1);
    }
    for (const [path, { version }] of shipped) {
      const manifest = JSON.parse(await readFile(join(folder, "app", path, "package.json"), "utf8"));
      expect(manifest, path).toMatchObject({ version });
    }
  });

  test("holds the packages of the repository that the service imports", async () => {
    const read = async (at: string) => JSON.parse(await readFile(join(at, "package.json"), "utf8")) as Manifest;
    const [there, here] = [await read(join(folder, "app")), await read(ROOT)];
    expect(there.imports).toEqual(here.imports);
    for (const { default: file } of Object.values(here.imports)) {
      await expect(lstat(join(folder, "app", file)), file).resolves.toBeDefined();
    }
  });

  test("comes with its licence", async () => {
    const [there, here] = await Promise.all(
      [join(folder, "app"), ROOT].map((at) => readFile(join(at, "LICENSE"), "utf8")),
    );
    expect(there).toBe(here);
  });
});

describe("the service started from the folder by /bin/ratelimit, as a user who can write nothing there", () => {
  let service: ServiceProcess;
  let before: string[];

  beforeAll(async () => {
    // Not even the owner needs to write; only root could all the same, and then another user runs the service.
    if (!isRoot) await promisify(execFile)("chmod", ["-R", "a-w", folder]);
    before = await listing(folder);
    const env = { NODE_ENV: "production" };
    service = await startService(env, { command: [join(folder, "bin/ratelimit")], cwd: "/", ...asNobody });
  });
  afterAll(async () => {
    service.signal("SIGKILL");
    if (!isRoot) await chmod(folder, 0o755).then(() => promisify(execFile)("chmod", ["-R", "u+w", folder]));
  });

  test("limits by the rules that come with it, over gRPC and over HTTP", async () => {
    const client = openClient(`127.0.0.1:${service.grpcPort}`);
    const descriptors = [{ entries: [{ key: "remote_address", value: "203.0.113.7" }] }];
    const reply = await askOnce(client, { domain: "edge", descriptors });
    expect(reply).toMatchObject({ overall_code: "OK", statuses: [{ limit_remaining: 49 }] });
    // More than the burst can never pass, however slow the machine and however much has come back.
    const body = JSON.stringify({ domain: "edge", descriptors, hits_addend: 51 });
    const answer = await fetch(`http://127.0.0.1:${service.httpPort}/json`, { method: "POST", body });
    expect(answer.status).toBe(429);
  });

  test("passes its health check, and a service that is not there fails it", async () => {
    const check = join(folder, "app/bin/health-check.mjs");
    const run = (env: Record<string, string>, ...args: string[]) =>
      spawnSync(process.execPath, [check, ...args], { encoding: "utf8", env, ...asNobody });
    expect(run({ PORT: String(service.httpPort) }).status).toBe(0);
    expect(run({ PORT: String(service.httpPort) }, "/readyz").status).toBe(0);
    expect(run({ PORT: String(service.httpPort) }, "/nothing")).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("404"),
    });
    expect(run({ PORT: "9" })).toMatchObject({ status: 1, stderr: expect.stringContaining("did not answer") });
  });

  test("ends with 0 on SIGTERM, and has left the folder as it was", async () => {
    expect(await service.stop()).toBe(0);
    expect(await listing(folder)).toEqual(before);
  });
});

describe("the Dockerfile", () => {
  test("builds by the same script, runs as the same user, and starts the same program", async () => {
    const dockerfile = await readFile(join(ROOT, "deploy/Dockerfile"), "utf8");
    for (const folder of PACKAGES) expect(dockerfile).toContain(`\nCOPY ${folder}/package.json ${folder}/\n`);
    expect(dockerfile).toMatch(/^RUN node deploy\/build-image-folder\.mjs \/image$/m);
    expect(dockerfile).toMatch(/^COPY --from=build \/image\/app \/app$/m);
    expect(dockerfile).toMatch(/ln -s \/app\/bin\/ratelimit \/bin\/ratelimit$/m);
    expect(dockerfile).toMatch(new RegExp(`^USER ${UID}:${UID}$`, "m"));
    expect(dockerfile).toMatch(/^CMD \["\/bin\/ratelimit"\]$/m);
    expect(dockerfile).toMatch(/^EXPOSE 8081 8080$/m);
    expect(dockerfile).toMatch(/^COPY --from=started \/tmp\/compile \/app\/\.cache\/compile$/m);
  });

  test("gets everything that the script reads, and .dockerignore lets nothing else in", async () => {
    const ignore = await readFile(join(ROOT, ".dockerignore"), "utf8");
    const allowed = [...ignore.matchAll(/^!(.+)$/gm)].map((match) => match[1]);
    const { files } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { files: string[] };
    const copied = files.filter((path) => !/^(?:!.*|.*dist|docs|examples|deploy\/(?:cases|envoy)|.*\.md)$/.test(path));
    const manifests = ["package.json", "package-lock.json"];
    const ofPackages = ["package.json", "tsconfig.json", "src"].map((path) => `packages/*/${path}`);
    const needed = [...manifests, ...ofPackages, "LICENSE", "tsconfig.json", "tsconfig.build.json", "src"];
    const own = ["deploy/build-image-folder.mjs", "deploy/bill-of-materials.mjs", "deploy/image"];
    expect(allowed.toSorted()).toEqual([...copied, ...needed, ...own].toSorted());
  });
});
