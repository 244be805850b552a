import type { Head } from './head.ts';

/** Receives, during apply, the changes that live readers wait for. */
export interface StateListener {
  /** Bytes were appended from `from` on, the stream was closed, or both; or the stream was created. */
  changed(head: Head, from: number): void;
  removed(head: Head): void;
}
