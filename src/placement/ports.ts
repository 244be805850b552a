/** What placement offers to the admin plane. */

/** The drain mark of this node. */
export interface DrainMark {
  readonly draining: boolean;
  /** Every reason not to lead that is in force (placement/state/shed.ts). */
  readonly bits: number;
  /**
   * Resolves when the mark is on disk and every shard goes by it. Rejects with a MillraceError when the disk or a shard
   * does not take it now.
   */
  set(draining: boolean): Promise<void>;
}
