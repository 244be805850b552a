import type { Head } from './head.ts';

/** Told of changes that live readers wait for, during apply. */
export interface StateListener {
  /** Bytes were appended from `from` on, or the stream was closed, or both; or it was created. */
  changed(head: Head, from: number): void;
  removed(head: Head): void;
}
