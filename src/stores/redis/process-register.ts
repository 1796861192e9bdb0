// The register of processes in Redis: a hash of beats and a hash of longer reports, with one hash tag.

import { MICROS_PER_MILLI } from "../../base/units.ts";
import {
  PROCESS_GONE_MS,
  type ProcessRegister,
  processText,
  REPORT_BYTES_MAX,
  REPORTS_AT_ONCE,
  readProcess,
} from "../process-register.ts";
import { Aside, type AsideOptions, pairs, texts } from "./aside.ts";

/** The register. */
export function redisProcessRegister(options: AsideOptions): ProcessRegister {
  const prefix = `${options.keyPrefix}{headgate:limits}:`;
  const [processesKey, reportsKey] = [`${prefix}processes`, `${prefix}reports`];
  const aside = new Aside(options, processesKey);
  const forget = async (ids: readonly string[]) => {
    await aside.ask("hdel", processesKey, ...ids);
    await aside.ask("hdel", reportsKey, ...ids);
  };
  return {
    async beat(own) {
      const nowMs = Math.floor(aside.nowUs() / MICROS_PER_MILLI);
      const added = own && (await aside.ask("hset", processesKey, own.id, `${nowMs} ${processText(own)}`));
      const all = pairs(await aside.ask("hgetall", processesKey));
      // Text that is not a time, or a time from before a server's clock was set back, would keep its entry for ever.
      const isLive = (text: string) => Math.abs(Number.parseInt(text, 10) - nowMs) <= PROCESS_GONE_MS;
      const gone = all.filter(([, text]) => !isLive(text));
      if (gone.length > 0) await forget(gone.map(([id]) => id));
      const live = all.filter((process) => !gone.includes(process));
      return {
        all: live.map(([id, text]) => readProcess(id, text.slice(text.indexOf(" ") + 1))),
        isNew: Number(added) === 1,
      };
    },
    async publish(id, report) {
      await aside.ask("hset", reportsKey, id, report);
      await aside.ask("pexpire", reportsKey, String(PROCESS_GONE_MS));
    },
    async published() {
      const ids = (await this.beat(undefined)).all.filter(({ name }) => name !== "").map(({ id }) => id);
      const reports: string[] = [];
      for (let i = 0; i < ids.length; i += REPORTS_AT_ONCE)
        reports.push(...texts(await aside.ask("hmget", reportsKey, ...ids.slice(i, i + REPORTS_AT_ONCE))));
      return reports.filter((report) => report !== "" && Buffer.byteLength(report) <= REPORT_BYTES_MAX);
    },
    leave: (id) => forget([id]),
  };
}
