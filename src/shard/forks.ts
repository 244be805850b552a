/** What there is to be done for forks in the groups that this node leads (stream/fork/outbox.ts). */
import { encodeUtf8 } from '../base/utf8.ts';
import type { Group } from '../group/group.ts';
import { errands, questions } from '../stream/fork/outbox.ts';
import type { Reply } from '../wire/reply.ts';
import type { Query } from '../wire/request.ts';

export function answerForks(groups: readonly Group[], query: Query, reply: Reply): void {
  const { maxRecords: most, mode, topic, value } = query;
  // A leader that has not applied what was before its term would find what is done already.
  const led = groups.filter(({ leads, state, raft }) => leads && state.appliedTerm === raft.term);
  const place = query.bytes.slice(query.keyAt, query.keyAt + query.keyBytes);
  const found = { errands: [] as unknown[], questions: [] as unknown[] };
  for (const { id: group, state } of led) {
    const left = most - found.errands.length;
    if (left > 0) found.errands.push(...errands(state, left).map((errand) => ({ group, ...errand })));
    const leftToAsk = most - found.questions.length;
    if (mode === 0 || group < topic || leftToAsk <= 0) continue;
    const from = group === topic ? place : new Uint8Array(0);
    const asked = questions(state, from, group === topic ? value : 0, leftToAsk);
    found.questions.push(...asked.map((question) => ({ group, ...question })));
  }
  reply.body = encodeUtf8(JSON.stringify(found));
}
