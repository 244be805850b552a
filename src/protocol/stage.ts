/**
 * Stages of a traced request on a node's shard. A reply carries one for the shard that answers it and, if that had
 * forwarded the request, one for the leader. Durations, not moments: nodes have clocks of their own.
 */
import { f64, struct, u32, u8, zeros } from '../base/struct.ts';

/** Answered from what the shard has, or refused. */
export const STAGE_PLAIN = 0;
/** Written to the log: `first` is until this node's disk had it. */
export const STAGE_WRITTEN = 1;
/** Sent to the leader: `first` is until that had answered. */
export const STAGE_FORWARDED = 2;

/** `total`: from the turn that took the request to its answer, in milliseconds. */
export const STAGE = struct({ node: u32, kind: u8, zeros: zeros(3), firstMs: f64, totalMs: f64 });

export interface Stage {
  readonly node: number;
  readonly kind: number;
  readonly firstMs: number;
  readonly totalMs: number;
}

/** The shard that answers, and the leader. */
const STAGES_MAX = 2;

/** The stages of all requests but the few that are traced. */
export const NO_STAGES: readonly Stage[] = [];

/** Returns the number of bytes. */
export function writeStages(view: DataView, at: number, stages: readonly Stage[]): number {
  stages.forEach((stage, i) => STAGE.write(view, at + i * STAGE.size, stage));
  return stages.length * STAGE.size;
}

/** Other nodes say `count` too, so what cannot be is none. */
export function readStages(view: DataView, at: number, count: number): readonly Stage[] {
  if (count > STAGES_MAX || at + count * STAGE.size > view.byteLength) return NO_STAGES;
  return Array.from({ length: count }, (_, i) => STAGE.read(view, at + i * STAGE.size));
}
