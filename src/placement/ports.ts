/** Placement as the admin plane sees it. */

/** The drain mark of this node. */
export interface DrainMark {
  readonly draining: boolean;
  /** All current reasons not to lead (placement/state/shed.ts). */
  readonly bits: number;
  /**
   * Resolves when the mark is on disk and every shard follows it. Rejects with a MillraceError when the disk or a shard
   * cannot accept it now.
   */
  set(wanted: 'draining' | 'serving'): Promise<void>;
}
