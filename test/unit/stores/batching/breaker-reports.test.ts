// Several breakers are reported as one: the worst of them, and only when that changes.

import { expect, test } from "vitest";
import { BreakerReports } from "../../../../src/stores/batching/breaker-reports.ts";
import { SILENT_STORE_OBSERVER } from "../../../../src/stores/store-observer.ts";

test("the worst state of all servers is reported when it changes, also by one that goes", () => {
  const reported: string[] = [];
  const breakers = new BreakerReports({ ...SILENT_STORE_OBSERVER, breakerChanged: (state) => reported.push(state) });
  const [one, other] = [breakers.observer(), breakers.observer()];
  one.breakerChanged("open");
  other.breakerChanged("open");
  other.breakerChanged("probing");
  one.breakerChanged("probing");
  other.breakerChanged("closed");
  other.breakerChanged("open");
  breakers.drop(other);
  one.breakerChanged("closed");
  expect(reported).toEqual(["open", "probing", "open", "probing", "closed"]);
});

test("everything else is passed on", () => {
  let failures = 0;
  const breakers = new BreakerReports({ ...SILENT_STORE_OBSERVER, outcomeUnknown: (groups) => (failures += groups) });
  breakers.observer().outcomeUnknown(2);
  breakers.observer().outcomeUnknown(3);
  expect(failures).toBe(5);
});

test("each server's own breaker is told by its name; one that goes is closed", () => {
  const told: string[] = [];
  const serverBreakerChanged = (server: string, state: string) => told.push(`${server}: ${state}`);
  const breakers = new BreakerReports({ ...SILENT_STORE_OBSERVER, serverBreakerChanged });
  const [one, other] = [breakers.observer(), breakers.observer(", the second")];
  one.serverBreakerChanged("Redis", "open");
  other.serverBreakerChanged("Redis", "open");
  one.serverBreakerChanged("Redis", "closed");
  breakers.drop(other);
  expect(told).toEqual(["Redis: open", "Redis, the second: open", "Redis: closed", "Redis, the second: closed"]);
});

test("a server that was dropped while its breaker probed says nothing more", () => {
  const reported: string[] = [];
  const breakers = new BreakerReports({
    ...SILENT_STORE_OBSERVER,
    breakerChanged: (state) => reported.push(state),
    serverBreakerChanged: (_, state) => reported.push(`server ${state}`),
  });
  const one = breakers.observer();
  for (const state of ["open", "probing"] as const) {
    one.breakerChanged(state);
    one.serverBreakerChanged("Redis", state);
  }
  breakers.drop(one);
  const before = [...reported];
  one.breakerChanged("open");
  one.serverBreakerChanged("Redis", "open");
  expect(reported).toEqual(before);
  expect(reported.slice(-2)).toEqual(["server closed", "closed"]);
});
