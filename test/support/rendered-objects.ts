// Kubernetes objects as kustomize and helm render them from deploy/, in a form that tests can compare and walk through.

import { cpSync, renameSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { parseAllDocuments } from "yaml";
import { goTool, pythonPackage, runPython, runTool } from "./deploy-tools.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const DEPLOY = resolve(import.meta.dirname, "../../deploy");
export const CHART = join(DEPLOY, "helm/headgate");
/** The oldest Kubernetes that the chart names would do; helm asks for one when it talks to no cluster. */
const KUBE_VERSION = "1.31.0";

/** The set-ups that exist both as an overlay and as example values of the chart. */
export const SETUPS = [
  "memory",
  "redis",
  "redis-sentinel",
  "redis-cluster",
  "postgres",
  "production",
  "mutual-tls",
] as const;
export type Setup = (typeof SETUPS)[number];

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: Labels };
  readonly [field: string]: unknown;
}
interface Notes {
  readonly data: { readonly notes: string };
}
export type Labels = Readonly<Record<string, string>>;

export async function renderOverlay(setup: Setup): Promise<KubeObject[]> {
  return objectsIn(await kustomize(join(DEPLOY, "kubernetes/overlays", setup)));
}

/** The job that verifies limits. */
export async function renderVerify(): Promise<KubeObject[]> {
  return objectsIn(await kustomize(join(DEPLOY, "kubernetes/verify")));
}

/** The set-up with one more component, as an overlay of a reader's own has it. */
export async function renderWithComponent(setup: Setup, component: string): Promise<KubeObject[]> {
  const folder = temporaryFolder("overlay");
  const place = (name: string) => relative(folder, join(DEPLOY, "kubernetes", name));
  writeFileSync(
    join(folder, "kustomization.yaml"),
    `namespace: headgate\nresources: ["${place(`overlays/${setup}`)}"]\ncomponents: ["${place(`components/${component}`)}"]\n`,
  );
  return objectsIn(await kustomize(folder));
}

async function kustomize(folder: string): Promise<string> {
  return await runTool(await goTool("kustomize"), ["build", folder]);
}

export async function renderChart(setup: Setup, ...args: readonly string[]): Promise<KubeObject[]> {
  return templateChart("headgate", "-f", join(CHART, "examples", `${setup}.yaml`), ...args);
}

/** What helm prints after an installation. It does so only for a cluster, so a copy of the chart shows it in an object. */
export async function renderNotes(...args: readonly string[]): Promise<string> {
  const copy = join(temporaryFolder("chart"), "headgate");
  cpSync(CHART, copy, { recursive: true });
  renameSync(join(copy, "templates/NOTES.txt"), join(copy, "files/notes.txt"));
  const shown = `apiVersion: v1
kind: ConfigMap
metadata: { name: notes }
data: { notes: {{ tpl (.Files.Get "files/notes.txt") . | quote }} }
`;
  writeFileSync(join(copy, "templates/notes.yaml"), shown);
  const objects = objectsIn(await template("headgate", copy, args));
  const shownNotes = objects.find(({ metadata }) => metadata.name === "notes") as unknown as Notes;
  return shownNotes.data.notes;
}

/** Renders the chart as a release in namespace `headgate`; rejects with helm's words for values that it refuses. */
export async function templateChart(release: string, ...args: readonly string[]): Promise<KubeObject[]> {
  return objectsIn(await template(release, CHART, args));
}

async function template(release: string, chart: string, args: readonly string[]): Promise<string> {
  const fixed = ["template", release, chart, "--namespace", "headgate", "--kube-version", KUBE_VERSION];
  return runTool(await goTool("helm"), [...fixed, ...args]);
}

/** What the schemas of Kubernetes `version` find wrong in the objects, unknown fields included. */
export async function schemaErrors(objects: readonly KubeObject[], version: string): Promise<string[]> {
  const folder = await pythonPackage("kubernetes-validate");
  return (await runPython(folder, VALIDATE, { objects, version })) as string[];
}

const VALIDATE = `
import json, sys
import kubernetes_validate as k
asked = json.load(sys.stdin)
found = []
for thing in asked["objects"]:
    try:
        k.validate(thing, asked["version"], strict=True)
    except (k.ValidationError, k.SchemaNotFoundError) as error:
        found.append(f"{thing['kind']} {thing['metadata']['name']}: {error}"[:500])
print(json.dumps(found))
`;

function objectsIn(text: string): KubeObject[] {
  return parseAllDocuments(text)
    .map((document) => document.toJS() as KubeObject | null)
    .filter((object) => object !== null);
}
