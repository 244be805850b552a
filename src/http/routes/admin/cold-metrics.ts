/** What the cold tier's metrics say about the node as a whole, from what its shards say about their groups. */
interface RaftGroup {
  readonly raft_group_id: number;
  readonly [name: string]: unknown;
}

/** A node is as far as its worst group. */
const WORSE = ['open', 'pressure', 'refusing'];

export function coldSummary(
  groups: readonly RaftGroup[],
  perGroup: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const worst = Math.max(0, ...groups.map((group) => WORSE.indexOf(String(group['cold_write_admission']))));
  const ages = groups.map((group) => group['cold_backlog_age_ms']).filter((age) => typeof age === 'number');
  return {
    cold_write_admission: {
      state: WORSE[worst],
      refusing_groups: groups.filter((group) => group['cold_write_admission'] === 'refusing').map(idOf),
    },
    /** Of the oldest byte that is not in the cold store. */
    cold_flush_backlog_age_ms: Math.max(0, ...ages),
    cold_hot_group_bytes_max: highest(perGroup['per_group_cold_hot_bytes']),
    cold_hot_group_bytes_high_watermark: highest(perGroup['per_group_cold_hot_bytes_max']),
  };
}

function idOf(group: RaftGroup): number {
  return group.raft_group_id;
}

function highest(values: unknown): number {
  return Array.isArray(values) ? Math.max(0, ...values.filter((value) => typeof value === 'number')) : 0;
}
