// Workflow commands of GitHub Actions: a problem becomes an annotation of its line.

import { visible } from "../../base/visible.ts";
import type { Place, Problem } from "../../engine/rules/source.ts";

/** One annotation, as a line. Names of files are relative to the root of the checkout, where workflows run. */
export function githubAnnotation(level: "error" | "warning", at: Place, title: string, message: string): string {
  const { file, line, column } = at;
  const place = line === 0 ? `file=${property(file)}` : `file=${property(file)},line=${line},col=${column}`;
  return `::${level} ${place},title=${property(title)}::${data(message)}\n`;
}

/** A problem as such a line. */
export function problemAnnotation({ severity, message, suggestion, ...at }: Problem, title: string): string {
  return githubAnnotation(severity, at, title, suggestion === undefined ? message : `${message}. ${suggestion}`);
}

function data(text: string): string {
  return visible(text).replaceAll("%", "%25");
}

function property(text: string): string {
  return data(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}
