/** Verbs about buckets and streams: their quotas, their end, and their way to the cold store. */
import type { Cluster } from '../../nodes/cluster.ts';
import {
  CLIENT_FLAGS,
  CONFIG,
  type Context,
  type Verb,
  asking,
  openCluster,
  openStreams,
  textFlag,
} from '../context.ts';
import { sizeOf } from '../flags.ts';
import { Failure, NotThere, UsageError, printable } from '../../nodes/failure.ts';
import { type HttpReply, membersOf, refusal } from '../../nodes/http-client.ts';
import { OUTPUT, formatFacts, formatTable, wantsJson } from '../output.ts';
import { formatBytes } from '../../nodes/findings.ts';
import { listBuckets } from '../streams/listing.ts';
import { confirm } from '../streams/pipes.ts';

const BUCKET = textFlag('BUCKET', 'the bucket', { required: true });
/** A purge deletes stream after stream, and then objects. */
const PURGE_TIMEOUT_SECONDS = 600;
const FLUSH_TIMEOUT_SECONDS = 30;
/** A flush moves as many whole messages as fit into one object, or a larger one alone. */
const OBJECT_BYTES = 8 * 1024 * 1024;
/** Leaders may move while they are asked. */
const LEADERS_MAX = 5;

const LIST = [{ head: 'bucket' }, { head: 'streams', isNumber: true }, { head: 'size', isNumber: true }] as const;

export const bucketLs: Verb = {
  name: 'bucket ls',
  about: 'list the buckets that hold streams, as the node that answers knows them',
  examples: ['millracectl bucket ls', 'millracectl bucket ls --output json'],
  onlyShows: true,
  flags: { ...OUTPUT, ...CLIENT_FLAGS },
  run: async (context) => {
    const all = await listBuckets(await openStreams(context));
    const buckets = all.filter(({ streams, retainedBytes }) => streams > 0 || retainedBytes > 0);
    if (wantsJson(context.values)) {
      return context.say(JSON.stringify(buckets.map(({ bucket, raw }) => ({ bucket, ...raw }))));
    }
    const rows = buckets.map(({ bucket, streams, retainedBytes }) => {
      return [printable(bucket), String(streams), formatBytes(retainedBytes)];
    });
    for (const line of formatTable(LIST, rows)) context.say(line);
  },
};

const USAGE = [
  'committed_append_bytes',
  'committed_records',
  'committed_write_units',
  'retained_bytes',
  'stream_count',
];

export const usage: Verb = {
  name: 'usage',
  about: 'show what buckets have written and hold, as the node that answers has applied it; counters outlive a purge',
  words: ['bucket'],
  examples: ['millracectl usage', 'millracectl usage demo --json'],
  onlyShows: true,
  flags: { bucket: { ...BUCKET, required: false }, ...OUTPUT, ...CLIENT_FLAGS },
  run: async (context) => {
    const { values, say } = context;
    const only = values.text('bucket');
    const all = await listBuckets(await openStreams(context));
    const shown = all.filter(({ bucket }) => only === undefined || bucket === only);
    if (only !== undefined && shown.length === 0) throw new NotThere(`bucket ${only} has written nothing`);
    if (wantsJson(values)) return say(JSON.stringify(shown.map(({ bucket, raw }) => ({ bucket, ...raw }))));
    const head = ['written', 'records', 'units', 'kept', 'streams'].map(
      (name) => ({ head: name, isNumber: true }) as const,
    );
    const rows = shown.map(({ bucket, raw }) => [
      printable(bucket),
      ...USAGE.map((name) => (name.endsWith('_bytes') ? formatBytes(Number(raw[name])) : String(Number(raw[name])))),
    ]);
    for (const line of formatTable([{ head: 'bucket' }, ...head], rows)) say(line);
  },
};

export const bucketQuota: Verb = {
  name: 'bucket quota',
  about: 'show or set what a bucket may hold',
  words: ['bucket'],
  examples: ['millracectl bucket quota demo', 'millracectl bucket quota demo --max-streams 1000 --output json'],
  flags: {
    config: CONFIG,
    bucket: BUCKET,
    'max-streams': textFlag('N', 'most streams; none: no bound'),
    'max-retained-bytes': textFlag('SIZE', 'most bytes that are kept, as 1000000 or 10GiB; none: no bound'),
    clear: { kind: 'switch', about: 'neither bound' },
    ...OUTPUT,
    ...asking(),
  },
  run: async (context) => {
    const shown = await quotaOf(context);
    if (wantsJson(context.values)) return context.say(shown);
    for (const line of formatFacts(membersOf(shown), 'quota')) context.say(line);
  },
};

/** JSON, after the change if there is one. */
async function quotaOf(context: Context): Promise<string> {
  const change = changeOf(context);
  const cluster = await openCluster(context);
  const path = `/__svc/quota/${encodeURIComponent(context.values.required('bucket'))}`;
  const shown = async (): Promise<string> => expectStatus(await cluster.callAny('GET', path), 200).text.trim();
  if (change === undefined) return await shown();
  // A quota is set as a whole, so the bound that is not named goes along as it is.
  const { max_streams, max_retained_bytes } = membersOf(await shown());
  const body = JSON.stringify({ max_streams, max_retained_bytes, ...change });
  expectStatus(await cluster.callAny('PUT', path, body), 204);
  return await shown();
}

type Bounds = { readonly max_streams?: number | null; readonly max_retained_bytes?: number | null };

/** The bounds to set, null for none; undefined when nothing is to be changed. */
function changeOf({ values }: Context): Bounds | undefined {
  const [streams, bytes] = [values.text('max-streams'), values.text('max-retained-bytes')];
  const isNamed = streams !== undefined || bytes !== undefined;
  if (values.isSet('clear')) {
    if (isNamed) throw new UsageError('quota: --clear stands alone, because it takes both bounds away');
    return { max_streams: null, max_retained_bytes: null };
  }
  if (!isNamed) return undefined;
  return {
    ...(streams === undefined ? {} : { max_streams: boundIn('max-streams', streams, countOf, 'a number of streams') }),
    ...(bytes === undefined
      ? {}
      : { max_retained_bytes: boundIn('max-retained-bytes', bytes, sizeOf, 'a size, as 1000000 or "10GiB"') }),
  };
}

function boundIn(
  flag: string,
  text: string,
  parse: (text: string) => number | undefined,
  expected: string,
): number | null {
  if (text === 'none') return null;
  const bound = parse(text);
  if (bound === undefined) throw new UsageError(`--${flag} ${text}: expected ${expected}, or none`);
  return bound;
}

function countOf(text: string): number | undefined {
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

export const bucketPurge: Verb = {
  name: 'bucket purge',
  about: 'erase a bucket with all its streams, for good',
  words: ['bucket'],
  examples: ['millracectl bucket purge demo', 'millracectl bucket purge demo --confirm demo'],
  flags: {
    config: CONFIG,
    bucket: BUCKET,
    confirm: textFlag('BUCKET', 'its name once more; without it the tool asks for it'),
    ...asking(PURGE_TIMEOUT_SECONDS),
  },
  run: async (context) => {
    const { values, say } = context;
    const bucket = values.required('bucket');
    const confirmed = values.text('confirm');
    if (confirmed !== undefined && confirmed !== bucket)
      throw new UsageError(`--confirm ${confirmed} is not the bucket ${bucket}; nothing was purged`);
    const text = `erase bucket ${bucket} with all its streams? Nothing brings it back. Type its name:`;
    if (confirmed === undefined && !(await confirm(context, { text, expected: bucket, flag: `--confirm ${bucket}` })))
      throw new Failure(`bucket ${bucket} was not purged`);
    const path = `/__svc/purge/${encodeURIComponent(bucket)}`;
    const reply = expectStatus(await (await openCluster(context)).callAny('DELETE', path), 200);
    const { removed_streams: streams, cold_gc_entries_reclaimed: objects } = membersOf(reply.text);
    say(`bucket ${bucket}: ${String(streams)} streams and ${String(objects)} objects of the cold store are gone`);
  },
};

export const webhookKeys: Verb = {
  name: 'webhook-keys',
  about: 'show, rotate or replace the keys that sign webhooks',
  examples: ['millracectl webhook-keys', 'millracectl webhook-keys --rotate'],
  flags: {
    config: CONFIG,
    rotate: { kind: 'switch', about: 'add a key, which signs when receivers had time to learn it' },
    replace: { kind: 'switch', about: 'one new key at once, because the old ones are in wrong hands' },
    ...asking(),
  },
  run: async (context) => {
    const { values, say } = context;
    const [rotates, replaces] = [values.isSet('rotate'), values.isSet('replace')];
    if (rotates && replaces) throw new UsageError('webhook-keys: give --rotate or --replace, not both');
    const method = rotates ? 'POST' : replaces ? 'DELETE' : 'GET';
    say(expectStatus(await (await openCluster(context)).callAny(method, '/__svc/webhook-keys'), 200).text.trim());
  },
};

export const flushCold: Verb = {
  name: 'flush-cold',
  about: "move a stream's bytes to the cold store now, object after object",
  examples: ['millracectl flush-cold --bucket demo --stream log'],
  flags: {
    config: CONFIG,
    bucket: BUCKET,
    stream: textFlag('STREAM', 'the stream', { required: true }),
    ...asking(FLUSH_TIMEOUT_SECONDS),
  },
  run: async (context) => {
    const { values, progress, say } = context;
    const cluster = await openCluster(context);
    const names = [values.required('bucket'), values.required('stream')];
    const path = `/__svc/flush-cold/${names.map(encodeURIComponent).join('/')}?max_bytes=${OBJECT_BYTES}`;
    let told = 'nothing to flush';
    // When two objects in a row would have fitted into one, only what is appended meanwhile is left.
    for (let [before, last] = [-Infinity, -Infinity]; ;) {
      const reply = await atLeader(cluster, path);
      if (reply.status === 204) break;
      told = expectStatus(reply, 200).text.trim();
      const moved = Number(membersOf(told)['hot_start_offset']);
      if (!(moved - before >= OBJECT_BYTES)) break;
      [before, last] = [last, moved];
      progress.waiting(`bytes in front of offset ${moved} are moved`);
    }
    progress.end();
    say(`${names.join('/')}: ${told}`);
  },
};

/** Only the leader of the stream's group can; the others name it. */
async function atLeader(cluster: Cluster, path: string): Promise<HttpReply> {
  let reply = await cluster.callAny('POST', path);
  for (let attempt = 1; attempt < LEADERS_MAX && reply.status === 409; attempt++) {
    const leader = leaderIn(reply.text);
    if (leader === undefined) break;
    reply = await cluster.call(cluster.node(leader), 'POST', path);
  }
  return reply;
}

function leaderIn(text: string): number | undefined {
  const { current_leader: leader } = membersOf(text);
  return typeof leader === 'number' ? leader : undefined;
}

function expectStatus(reply: HttpReply, status: number): HttpReply {
  if (reply.status !== status) throw new Failure(refusal(reply));
  return reply;
}
