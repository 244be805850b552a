/** The bounds of one bucket for the whole cluster, kept in every group (gateway/quota-gate.ts enforces them). */
import type { ErrorCode } from '../base/errors.ts';
import { NO_QUOTA } from '../base/use-limits.ts';
import { type Refused, callGroups, callShards, firstRefusal, resultsOf } from '../gateway/shard-client.ts';
import type { ShardGateway, WriteGateway } from '../ports.ts';
import type { Quota } from '../protocol/bucket-command.ts';
import { COMMANDS, QUERIES } from '../protocol/operations.ts';

/** Some groups may have the new bounds; a repeated call continues. */
export interface QuotaRefused {
  readonly code: Exclude<ErrorCode, 'OK'>;
  readonly told: number;
  readonly groups: number;
}

/** Undefined: every group has them. */
export function setQuota(
  gateway: WriteGateway,
  bucket: string,
  quota: Quota,
  done: (refused: QuotaRefused | undefined) => void,
): void {
  callGroups(gateway, COMMANDS.quota, { bucket, ...quota }, (parts) => {
    const refused = firstRefusal(parts);
    if (refused === undefined) return done(undefined);
    const told = parts.filter((part) => part.code === 'OK').length;
    return done({ code: refused.code, told, groups: parts.length });
  });
}

/** The bounds, the largest where a change is under way, undefined: none; and what the bucket has. */
export interface QuotaReport {
  readonly code: 'OK';
  readonly streamsMax: number | undefined;
  readonly retainedBytesMax: number | undefined;
  readonly streams: number;
  readonly retainedBytes: number;
}

export function readQuota(gateway: ShardGateway, bucket: string, done: (report: QuotaReport | Refused) => void): void {
  callShards(gateway, QUERIES.bucket, { bucket }, (answers) => {
    const refused = firstRefusal(answers, 'BUCKET_NOT_FOUND');
    if (refused !== undefined) return done(refused);
    const parts = resultsOf(answers);
    return done({
      code: 'OK',
      streamsMax: largest(parts.map((part) => part.streamsMax)),
      retainedBytesMax: largest(parts.map((part) => part.retainedBytesMax)),
      streams: parts.reduce((sum, part) => sum + part.streams, 0),
      retainedBytes: parts.reduce((sum, part) => sum + part.retainedBytes, 0),
    });
  });
}

function largest(bounds: readonly number[]): number | undefined {
  const bound = Math.max(-1, ...bounds);
  return bound < 0 ? undefined : bound;
}

/** As the admin plane shows it. `fallback` is the node's default, named only where the bucket has no bound of its own. */
export function shownQuota(report: QuotaReport, fallback = NO_QUOTA): Readonly<Record<string, number | null>> {
  const { streamsMax, retainedBytesMax, streams, retainedBytes } = report;
  const holds = streamsMax === undefined && retainedBytesMax === undefined;
  return {
    max_streams: streamsMax ?? null,
    max_retained_bytes: retainedBytesMax ?? null,
    ...(holds && fallback.streamsMax >= 0 ? { default_max_streams: fallback.streamsMax } : {}),
    ...(holds && fallback.bytesMax >= 0 ? { default_max_retained_bytes: fallback.bytesMax } : {}),
    used_streams: streams,
    used_retained_bytes: retainedBytes,
  };
}
