/** Pending fork work in the groups that this node leads (stream/forks/pin.ts). */
import type { Group } from '../../group/group.ts';
import { pendingNotifications, pinChecks } from '../../stream/forks/pin.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { Query } from '../../protocol/request.ts';
import { QUERIES } from '../../protocol/operations.ts';
import type { ForksResult } from '../../protocol/queries/summaries.ts';

export function answerForks(groups: readonly Group[], query: Query, reply: Reply): void {
  const { fromToken, notificationsMax, pinChecksMax, place } = QUERIES.forks.request.read(query);
  const found: { [Name in keyof ForksResult]: ForksResult[Name][number][] } = {
    pendingNotifications: [],
    pinChecks: [],
  };
  // A leader that has not applied everything before its term would find work that is already done.
  const led = groups.filter(({ leads, state, raft }) => leads && state.appliedTerm === raft.term);
  // Rotates the first group, because there may be more than fits, none of which can be done now.
  const first = led.length === 0 ? 0 : fromToken % led.length;
  for (const { id: group, state } of [...led.slice(first), ...led.slice(0, first)]) {
    const left = notificationsMax - found.pendingNotifications.length;
    if (left > 0)
      found.pendingNotifications.push(
        ...pendingNotifications(state, left, fromToken).map((one) => ({ group, ...one })),
      );
  }
  for (const { id: group, state } of led) {
    const leftToAsk = pinChecksMax - found.pinChecks.length;
    if (group < place.group || leftToAsk <= 0) continue;
    const { incarnation, token } = group === place.group ? place : { incarnation: 0, token: 0 };
    const asked = pinChecks(state, incarnation, token, leftToAsk);
    found.pinChecks.push(...asked.map((one) => ({ group, ...one })));
  }
  QUERIES.forks.result.write(reply, found);
}
