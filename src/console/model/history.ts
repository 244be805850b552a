/** Values over time, for the plots: columns of equal length, as plotting libraries take them. */

/** At one round in two seconds: six hours. When there are more, the older half loses every second one. */
const KEPT = 10_800;

export type HistoryColumn = readonly (number | null)[];

export class History {
  /** Seconds since 1970. */
  #times: number[] = [];
  readonly #columns = new Map<string, (number | null)[]>();

  /** Values by name. A name that is missing has a gap here. */
  add(atMs: number, values: ReadonlyMap<string, number>): void {
    const before = this.#times.length;
    this.#times.push(atMs / 1000);
    for (const name of values.keys()) {
      if (!this.#columns.has(name)) this.#columns.set(name, Array<number | null>(before).fill(null));
    }
    for (const [name, column] of this.#columns) column.push(values.get(name) ?? null);
    if (this.#times.length <= KEPT) return;
    const isKept = (_: unknown, i: number): boolean => i % 2 === 0 || i > KEPT / 2;
    this.#times = this.#times.filter(isKept);
    for (const [name, column] of this.#columns) this.#columns.set(name, column.filter(isKept));
  }

  /** Puts in front what is older than all that is here. The keys are milliseconds since 1970, in order. */
  precede(values: ReadonlyMap<number, ReadonlyMap<string, number>>): void {
    const first = this.#times[0] ?? Infinity;
    const older = [...values].filter(([atMs]) => atMs / 1000 < first);
    for (const name of older.flatMap(([, some]) => [...some.keys()])) {
      if (!this.#columns.has(name)) this.#columns.set(name, Array<number | null>(this.#times.length).fill(null));
    }
    this.#times.unshift(...older.map(([atMs]) => atMs / 1000));
    for (const [name, column] of this.#columns) column.unshift(...older.map(([, some]) => some.get(name) ?? null));
  }

  /** Milliseconds since 1970; undefined while there is nothing. */
  get sinceMs(): number | undefined {
    const [first] = this.#times;
    return first === undefined ? undefined : first * 1000;
  }

  get length(): number {
    return this.#times.length;
  }

  /** Names that begin so, in the order in which they came. */
  names(prefix: string): string[] {
    return [...this.#columns.keys()].filter((name) => name.startsWith(prefix));
  }

  latest(name: string): number | null {
    return this.#columns.get(name)?.at(-1) ?? null;
  }

  /** The last `seconds`: times, and a column for each name. */
  window(names: readonly string[], seconds: number): [readonly number[], ...HistoryColumn[]] {
    const from = (this.#times.at(-1) ?? 0) - seconds;
    const start = this.#times.findIndex((time) => time >= from);
    const at = start < 0 ? this.#times.length : start;
    const empty = (): HistoryColumn => Array<number | null>(this.#times.length - at).fill(null);
    return [this.#times.slice(at), ...names.map((name) => this.#columns.get(name)?.slice(at) ?? empty())];
  }
}
