// The page: rules at the left, calls at the right, answers below; all of it in the address.

import { type Played, type PlayedCall, play } from "./engine.ts";
import { EXAMPLES } from "./examples.ts";
import { hashOf, type Shared, sharedIn } from "./link.ts";
import { type Run, runsOf, slicesOf } from "./runs.ts";

const MICROS_PER_SECOND = 1_000_000;
const ROWS_MAX = 300;
const SLICES = 120;
const CHART_HEIGHT = 40;
const SLICE_WIDTH = 2;
const PAUSE_MS = 250;
const SVG = "http://www.w3.org/2000/svg";

const find = <T extends Element>(id: string) => document.getElementById(id) as unknown as T;
const rules = find<HTMLTextAreaElement>("rules");
const calls = find<HTMLTextAreaElement>("calls");
const example = find<HTMLSelectElement>("example");
const written = (): Shared => ({ rules: rules.value, calls: calls.value });

function make(tag: string, text = "", kind = ""): HTMLElement {
  const element = document.createElement(tag);
  element.textContent = text;
  if (kind !== "") element.className = kind;
  return element;
}

function show(): void {
  const played = play(rules.value, calls.value);
  find("problems").replaceChildren(...played.problems.map((problem) => make("li", problem)));
  const passed = played.calls.filter(({ code }) => code === "OK").length;
  const refused = played.calls.length - passed;
  find("summary").textContent =
    played.calls.length === 0 ? "No calls." : `${passed} of ${played.calls.length} calls pass, ${refused} don't.`;
  showChart(played);
  showAnswers(played);
}

function showChart(played: Played): void {
  const slices = slicesOf(played, SLICES);
  const most = Math.max(1, ...slices.map(({ passed, refused }) => passed + refused));
  const bars = slices.flatMap(({ passed, refused }, i) => [
    bar(i, 0, passed / most, "passed"),
    bar(i, passed / most, refused / most, "refused"),
  ]);
  find("chart").replaceChildren(...bars.filter((one) => one !== undefined));
  const [begin, end] = find("span").children;
  if (begin !== undefined) begin.textContent = slices.length === 0 ? "" : offset(played, played.calls[0]);
  if (end !== undefined) end.textContent = slices.length === 0 ? "" : offset(played, played.calls.at(-1));
}

function bar(slice: number, from: number, share: number, kind: string): SVGElement | undefined {
  if (share === 0) return undefined;
  const rect = document.createElementNS(SVG, "rect");
  const height = share * CHART_HEIGHT;
  const y = CHART_HEIGHT - from * CHART_HEIGHT - height;
  for (const [name, value] of Object.entries({ x: slice * SLICE_WIDTH, y, width: SLICE_WIDTH, height }))
    rect.setAttribute(name, String(value));
  rect.setAttribute("class", kind);
  return rect;
}

function showAnswers(played: Played): void {
  const runs = runsOf(played.calls);
  find("answers").replaceChildren(...runs.slice(0, ROWS_MAX).map((run) => row(played, run)));
  find("more").textContent = runs.length > ROWS_MAX ? `${runs.length - ROWS_MAX} rows more are not shown.` : "";
  find<HTMLElement>("explained").hidden = true;
}

function row(played: Played, { index, first, last, count }: Run): HTMLElement {
  const line = make("tr");
  const begin = offset(played, first);
  const end = offset(played, last);
  const call = make("td");
  const button = make("button", first.says.join(" and "), "call");
  button.title = "Explain";
  button.addEventListener("click", () => explain(played, index, line));
  call.append(button);
  const isOk = first.code === "OK";
  const left =
    first.remaining === last.remaining
      ? number(last.remaining)
      : `${number(first.remaining)} to ${number(last.remaining)}`;
  line.append(
    make("td", begin === end ? begin : `${begin} to ${end}`),
    make("td", String(count), "number"),
    call,
    make("td", first.error ?? (isOk ? "passes" : "refused"), isOk ? "passed" : "refused"),
    make("td", first.rule === "none" ? "no limit" : first.rule),
    make("td", left, "number"),
    make("td", isOk ? "" : last.canPass ? duration(last.waitUs) : "never passes", "number"),
    make("td", duration(last.resetUs), "number"),
  );
  return line;
}

function explain(played: Played, index: number, line: HTMLElement): void {
  for (const other of find("answers").children) other.classList.toggle("chosen", other === line);
  find("why").textContent = played.explain(index);
  const panel = find<HTMLElement>("explained");
  panel.hidden = false;
  panel.scrollIntoView({ block: "nearest" });
}

const number = (value: number | undefined) => (value === undefined ? "" : String(value));

function offset({ startUs }: Played, call: PlayedCall | undefined): string {
  const us = (call?.atUs ?? startUs) - startUs;
  return `${us < 0 ? "-" : "+"}${duration(Math.abs(us))}`;
}

/** The same as in rule files and cases: 1d2h, 90s, 1.5s, 20ms. */
function duration(us: number | undefined): string {
  if (us === undefined || !Number.isFinite(us)) return "";
  if (us < MICROS_PER_SECOND && us > 0) return `${us / 1_000}ms`;
  const seconds = us / MICROS_PER_SECOND;
  if (seconds < 120) return `${seconds}s`;
  const parts = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor((seconds % 86_400) / 3_600), "h"],
    [Math.floor((seconds % 3_600) / 60), "m"],
    [Math.round((seconds % 60) * 1_000) / 1_000, "s"],
  ] as const;
  return parts.flatMap(([count, unit]) => (count === 0 ? [] : `${count}${unit}`)).join("");
}

/** The file with which `headgate test` plays the same. */
function testFile({ rules, calls }: Shared): string {
  const indented = (text: string, by: string) => text.trimEnd().replace(/^(?=.)/gm, by);
  return `rules:\n${indented(rules, "  ")}\ncases:\n  - name: from the playground\n    steps:\n${indented(calls, "      ")}\n`;
}

let pause: ReturnType<typeof setTimeout> | undefined;
let latest = "";

async function keepInAddress(): Promise<void> {
  const hash = await hashOf(written());
  latest = hash ?? "";
  history.replaceState(null, "", hash === undefined ? location.pathname : `#${hash}`);
}

function changed(): void {
  clearTimeout(pause);
  pause = setTimeout(() => {
    show();
    void keepInAddress();
  }, PAUSE_MS);
}

async function copy(text: string, says: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  find("copied").textContent = says;
}

function use(shared: Shared): void {
  rules.value = shared.rules;
  calls.value = shared.calls;
  const known = EXAMPLES.findIndex((one) => one.rules === shared.rules && one.calls === shared.calls);
  example.value = String(known);
  show();
}

function useExample(index: number): void {
  use(EXAMPLES[index] ?? EXAMPLES[0]);
  const [, descriptor = ""] = /call: "?([^",}]+(?:,[^",}]+)*)"?[,}]/.exec(calls.value) ?? [];
  find<HTMLInputElement>("descriptor").value = descriptor.split(",")[0]?.trim() ?? "";
  void keepInAddress();
}

async function useAddress(): Promise<void> {
  const hash = location.hash.slice(1);
  if (hash !== "" && hash === latest) return;
  const shared = hash === "" ? undefined : await sharedIn(hash);
  if (shared !== undefined) use(shared);
  else useExample(0);
  if (hash !== "" && shared === undefined)
    find("problems").append(make("li", "The link is damaged; this is an example."));
}

function addCalls(event: Event): void {
  event.preventDefault();
  const value = (id: string) => find<HTMLInputElement>(id).value.trim();
  const everyMs = 1_000 / Number(value("rate"));
  const every = Number.isFinite(everyMs) ? `, every: ${Math.round(everyMs * 1_000) / 1_000}ms` : "";
  const step = `- { after: ${value("after")}, call: "${value("descriptor")}", times: ${value("times")}${every} }\n`;
  calls.value = `${calls.value.trimEnd()}\n${step}`.trimStart();
  changed();
}

example.append(
  ...EXAMPLES.map(({ name }, i) => {
    const option = make("option", name);
    option.setAttribute("value", String(i));
    return option;
  }),
);
const own = make("option", "Your own");
own.setAttribute("value", "-1");
own.hidden = true;
example.append(own);
example.addEventListener("change", () => useExample(Number(example.value)));
for (const area of [rules, calls])
  area.addEventListener("input", () => {
    example.value = "-1";
    changed();
  });
find("add").addEventListener("submit", addCalls);
find("link").addEventListener("click", () => void keepInAddress().then(() => copy(location.href, "Link copied.")));
find("test").addEventListener(
  "click",
  () => void copy(testFile(written()), "Copied: save it and run `headgate test FILE`."),
);
addEventListener("hashchange", () => void useAddress());
void useAddress();
