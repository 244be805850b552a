/** Patterns over paths of segments: `*` is one segment, `**` zero or more, anything else is literal. */

export class Glob {
  readonly pattern: string;
  readonly #segments: readonly string[];

  constructor(pattern: string) {
    this.pattern = pattern;
    this.#segments = pattern.split('/');
  }

  /** Linear in the path for each `**`: only the last one is ever retried. */
  matches(path: string): boolean {
    const pattern = this.#segments;
    const segments = path.split('/');
    let at = 0;
    let from = 0;
    let star = -1;
    let resume = 0;
    while (from < segments.length) {
      const wanted = pattern[at];
      if (wanted === '**') {
        star = at++;
        resume = from;
      } else if (wanted !== undefined && (wanted === '*' || wanted === segments[from])) {
        at++;
        from++;
      } else if (star >= 0) {
        at = star + 1;
        from = ++resume;
      } else {
        return false;
      }
    }
    while (pattern[at] === '**') at++;
    return at === pattern.length;
  }

  /** Segments before the first wildcard. */
  get literalFront(): readonly string[] {
    const first = this.#segments.findIndex((segment) => segment === '*' || segment === '**');
    return first < 0 ? this.#segments : this.#segments.slice(0, first);
  }
}
