/** What there is to be done for forks in the groups that this node leads (stream/fork/outbox.ts). */
import { encodeUtf8 } from '../base/utf8.ts';
import type { Group } from '../group/group.ts';
import { errands, questions } from '../stream/fork/outbox.ts';
import type { Reply } from '../wire/reply.ts';
import type { Query } from '../wire/request.ts';
import { readText } from '../wire/text.ts';

export function answerForks(groups: readonly Group[], query: Query, reply: Reply): void {
  const { maxRecords: most, maxBytes: mostToAsk, topic, value } = query;
  const place = Number(readText(query.bytes, query.keyAt, query.keyBytes));
  const found = { errands: [] as unknown[], questions: [] as unknown[] };
  for (const { id: group, leads, state, raft } of groups) {
    // A leader that has not applied what was before its term would find what is done already.
    if (!leads || state.appliedTerm !== raft.term) continue;
    const left = most - found.errands.length;
    if (left > 0) found.errands.push(...errands(state, left).map((errand) => ({ group, ...errand })));
    const leftToAsk = mostToAsk - found.questions.length;
    if (group < topic || leftToAsk <= 0) continue;
    const asked = group === topic ? questions(state, place, value, leftToAsk) : questions(state, 0, 0, leftToAsk);
    found.questions.push(...asked.map((question) => ({ group, ...question })));
  }
  reply.body = encodeUtf8(JSON.stringify(found));
}
