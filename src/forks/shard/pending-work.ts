/** Pending fork work in the groups that this node leads (forks/state/notifications.ts). */
import { encodeUtf8 } from '../../base/utf8.ts';
import type { Group } from '../../group/group.ts';
import { pendingNotifications, pinChecks } from '../state/notifications.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { Query } from '../../protocol/request.ts';
import { readText } from '../../base/text.ts';

export function answerForks(groups: readonly Group[], query: Query, reply: Reply): void {
  const { maxRecords: most, maxBytes: mostToAsk, topic, value } = query;
  const [place = 0, token = 0] = readText(query.bytes, query.keyAt, query.keyBytes).split('\0').map(Number);
  const found = { pendingNotifications: [] as unknown[], pinChecks: [] as unknown[] };
  // A leader that has not applied everything before its term would find work that is already done.
  const led = groups.filter(({ leads, state, raft }) => leads && state.appliedTerm === raft.term);
  // Rotates the first group, because there may be more than fits, none of which can be done now.
  const first = led.length === 0 ? 0 : token % led.length;
  for (const { id: group, state } of [...led.slice(first), ...led.slice(0, first)]) {
    const left = most - found.pendingNotifications.length;
    if (left > 0)
      found.pendingNotifications.push(...pendingNotifications(state, left, token).map((one) => ({ group, ...one })));
  }
  for (const { id: group, state } of led) {
    const leftToAsk = mostToAsk - found.pinChecks.length;
    if (group < topic || leftToAsk <= 0) continue;
    const asked = group === topic ? pinChecks(state, place, value, leftToAsk) : pinChecks(state, 0, 0, leftToAsk);
    found.pinChecks.push(...asked.map((one) => ({ group, ...one })));
  }
  reply.body = encodeUtf8(JSON.stringify(found));
}
