// Describes the limits of gateways, which have no names, by the keys of their entries: Envoy Gateway and Envoy AI
// Gateway encode routes, policies and rules in them. Things that no key contains, such as the name of a header, stay
// unknown.

/** An entry on the path to a limit, one-byte. `value` is empty if the rule accepts any value. */
export interface GatewayEntry {
  readonly key: string;
  readonly value: string;
}

/** Longer descriptions are cut, because they are shown in metric labels and headers. */
const CHARS_MAX = 200;

// httproute/<namespace>/<name>/rule/<rule>/match/<match>/<host, with _ for dots>
const ROUTE = /^[a-z]+route\/([^/]+\/[^/]+)\/rule\/(\d+)\/match\/(\d+)\/(.+)$/;
// <namespace>/<policy>/rule/<number, or the name of the rule>
const POLICY = /^([^/]+\/[^/]+)\/rule\/([^/]+)$/;
// rule-<number>-match-<header or query parameter>, rule-<number>-method, rule-<number>-path; rule-match-<...> under a
// policy's name
const SELECTOR = /^rule-(?:(\d+)-)?(?:match-(-?\d+)|(method|path))$/;
// rule-<number>-<header>|<value>-match-<number>, by Envoy AI Gateway
const QUOTA_HEADER = /^rule-(\d+)-([^|]+)\|(.*)-match-\d+$/;

/**
 * The description, such as `route default/shop shop.example.com, rule 0, each value of match 1`; empty for entries that
 * no gateway makes. One-byte, at most CHARS_MAX long. Only for people to read: different limits may have the same one.
 */
export function gatewayName(entries: readonly GatewayEntry[]): string {
  const [first] = entries;
  if (first === undefined || !isOfGateway(first)) return "";
  const words: string[] = [];
  let rule: string | undefined;
  for (const entry of entries) {
    const found = wordsOf(entry);
    // Each selector repeats the number of its rule. If a policy's key names the rule, that name counts.
    if (found.rule !== undefined && rule === undefined) words.push(`rule ${found.rule}`);
    rule ??= found.rule ?? found.policyRule;
    words.push(found.words);
  }
  const name = words.join(", ");
  return name.length <= CHARS_MAX ? name : `${name.slice(0, CHARS_MAX - 3)}...`;
}

function isOfGateway({ key, value }: GatewayEntry): boolean {
  return key === "backend_name" || (key === value && (ROUTE.test(key) || POLICY.test(key)));
}

interface Words {
  readonly words: string;
  /** The number of the rule in a selector's key. */
  readonly rule?: string;
  /** The number or name of a rule that `words` contains already. */
  readonly policyRule?: string;
}

function wordsOf({ key, value }: GatewayEntry): Words {
  const route = ROUTE.exec(key);
  if (route !== null) return { words: routeWords(route) };
  const policy = POLICY.exec(key);
  if (policy !== null) return { words: `policy ${policy[1]} rule ${policy[2]}`, policyRule: policy[2] ?? "" };
  const selector = SELECTOR.exec(key);
  if (selector !== null) {
    const [, rule, match, part] = selector;
    const words = part ?? matchWords(match ?? "", key, value);
    return rule === undefined ? { words } : { words, rule };
  }
  const header = QUOTA_HEADER.exec(key);
  if (header !== null) return { words: `header ${header[2]} ${header[3]}`, rule: header[1] ?? "" };
  return { words: plainWords(key, value) };
}

function routeWords([, name, rule, match, host = ""]: readonly (string | undefined)[]): string {
  // Left out if both are 0: most routes have one rule with one match.
  const which = rule === "0" && match === "0" ? "" : ` rule ${rule} match ${match}`;
  return `route ${name}${which}${host === "*" ? "" : ` ${host.replaceAll("_", ".")}`}`;
}

/** The number of a match counts headers first, then query parameters. */
function matchWords(match: string, key: string, value: string): string {
  if (match === "-1") return "all requests";
  if (value === "") return `each value of match ${match}`;
  return value === key ? `match ${match}` : `match ${match} ${value}`;
}

function plainWords(key: string, value: string): string {
  const inverted = "invert:";
  if (key === "masked_remote_address") {
    return value.startsWith(inverted) ? `addresses outside ${value.slice(inverted.length)}` : `addresses in ${value}`;
  }
  if (key === "remote_address" && value === "") return "each address";
  if (key === "backend_name") return `backend ${value}`;
  if (key === "model_name_override") return `model ${value}`;
  return value === "" || value === key ? key : `${key}=${value}`;
}
