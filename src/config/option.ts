/** What an option is. The tables are options.ts and cold-options.ts. */
import type { Kind } from './kinds.ts';

interface Flag {
  readonly name: string;
  /** What stands for the value in --help. */
  readonly placeholder: string;
}

export interface Option<T> {
  readonly kind: Kind<T>;
  /** A sentence or two for README.md and --help. Names the unit where it is not in the value. */
  readonly about: string;
  readonly flag?: Flag;
  /** Shown instead of the default where that depends on the host. */
  readonly defaultNote?: string;
}

export interface Defaulted<T> extends Option<T> {
  readonly fallback: T;
}

export type Extra = Pick<Option<unknown>, 'flag' | 'defaultNote'>;

export const option = <T>(of: Kind<T>, fallback: T, about: string, extra: Extra = {}): Defaulted<T> => ({
  kind: of,
  fallback,
  about,
  ...extra,
});
export const optional = <T>(of: Kind<T>, about: string, extra: Extra = {}): Option<T> => ({
  kind: of,
  about,
  ...extra,
});
