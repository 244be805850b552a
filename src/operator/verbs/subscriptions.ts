/** Subscriptions, as the nodes that fold their log know them. */
import { compareText } from '../../base/text.ts';
import { CONFIG, type Context, type Verb, asking, openCluster, textFlag } from '../context.ts';
import { Failure, NotThere, printable } from '../../nodes/failure.ts';
import { membersOf, refusal } from '../../nodes/http-client.ts';
import { type Json, isObject } from '../../nodes/report.ts';
import { OUTPUT, formatFacts, formatTable, textOf, wantsJson } from '../output.ts';

const SHARED = { config: CONFIG, ...OUTPUT, ...asking() };
const LIST = [
  ...[{ head: 'subscription' }, { head: 'type' }, { head: 'streams', isNumber: true as const }],
  ...[{ head: 'state' }, { head: 'failures', isNumber: true as const }, { head: 'target' }],
];

export const subscriptionLs: Verb = {
  name: 'subscription ls',
  about: 'list the subscriptions: what waits, what is under way, what fails',
  examples: ['millracectl subscription ls', 'millracectl subscription ls --json'],
  onlyShows: true,
  flags: SHARED,
  run: async (context) => {
    const all: Json[] = [];
    for await (const page of pagesOf(context)) all.push(...page);
    if (wantsJson(context.values)) return context.say(JSON.stringify(all));
    const rows = all.map((one) => [
      ...[textOf(one['id']), textOf(one['type']), textOf(one['streams']), stateOf(one)],
      ...[textOf(one['failures']), textOf(one['target'])],
    ]);
    for (const line of formatTable(LIST, rows)) context.say(line);
  },
};

export const subscriptionStat: Verb = {
  name: 'subscription stat',
  about: 'show where one subscription stands',
  words: ['id'],
  examples: ['millracectl subscription stat pool'],
  onlyShows: true,
  flags: { id: textFlag('ID', 'the subscription', { required: true }), ...SHARED },
  run: async (context) => {
    const id = context.values.required('id');
    for await (const page of pagesOf(context)) {
      const found = page.find((one) => one['id'] === id);
      if (found === undefined) continue;
      if (wantsJson(context.values)) return context.say(JSON.stringify(found));
      for (const line of formatFacts(found)) context.say(line);
      return;
    }
    throw new NotThere(`subscription ${printable(id)} is not there`);
  },
};

async function* pagesOf(context: Context): AsyncGenerator<Json[], void> {
  const cluster = await openCluster(context);
  for (let after = ''; ;) {
    const path = `/__svc/subscriptions${after === '' ? '' : `?after=${encodeURIComponent(after)}`}`;
    const reply = await cluster.callAny('GET', path);
    if (reply.status !== 200) throw new Failure(refusal(reply));
    const { subscriptions, next_cursor: next } = membersOf(reply.text);
    yield Array.isArray(subscriptions) ? subscriptions.filter(isObject) : [];
    if (typeof next !== 'string') return;
    if (compareText(next, after) <= 0) throw new Failure('a page of subscriptions ends where it begins');
    after = next;
  }
}

function stateOf(one: Json): string {
  if (Number(one['failures']) > 0) return 'failing';
  if (one['wake_under_way'] === true) return one['delivered'] === true ? 'delivered' : 'under way';
  return one['has_pending'] === true ? 'pending' : 'idle';
}
