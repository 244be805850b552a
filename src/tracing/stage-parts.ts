/** The stages that a shard reports, as pieces of the time between the question to it and its answer. */
import { STAGE_FORWARDED, STAGE_WRITTEN, type Stage } from '../protocol/stage.ts';

/** A span to be. Times in milliseconds of the wall clock. */
export interface Part {
  readonly name: string;
  readonly node: number;
  readonly startMs: number;
  readonly endMs: number;
  /** Within it. */
  readonly parts: readonly Part[];
}

/**
 * Stages are durations, so they need places. A shard's stage ends with its answer: what a request waits for is the
 * turn before, while answers leave at once. The leader's stage is in the middle of the way to it and back.
 */
export function partsOf(stages: readonly Stage[], askedMs: number, answeredMs: number): readonly Part[] {
  const [own, leader] = stages;
  if (own === undefined) return [];
  const startMs = Math.max(askedMs, answeredMs - own.totalMs);
  if (own.kind !== STAGE_FORWARDED) return partsOfStage(own, startMs, answeredMs);
  const { node } = own;
  const backMs = Math.min(startMs + own.firstMs, answeredMs);
  const parts = leader === undefined ? [] : partsOfLeader(leader, startMs, backMs);
  return [
    { name: 'leader', node: leader?.node ?? node, startMs, endMs: backMs, parts },
    { name: 'apply', node, startMs: backMs, endMs: answeredMs, parts: [] },
  ];
}

function partsOfLeader(leader: Stage, startMs: number, endMs: number): readonly Part[] {
  const wayMs = Math.max(0, endMs - startMs - leader.totalMs) / 2;
  return partsOfStage(leader, startMs + wayMs, endMs - wayMs);
}

function partsOfStage({ node, kind, firstMs }: Stage, startMs: number, endMs: number): readonly Part[] {
  if (kind !== STAGE_WRITTEN) return [{ name: 'turn', node, startMs, endMs, parts: [] }];
  const writtenMs = Math.min(startMs + firstMs, endMs);
  return [
    { name: 'log', node, startMs, endMs: writtenMs, parts: [] },
    { name: 'commit', node, startMs: writtenMs, endMs, parts: [] },
  ];
}
