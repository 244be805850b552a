/** URLs that browsers read a stream with, without a header: the token in them is made by a node. */
import { type Verb, CLIENT_FLAGS, openStreams, textFlag } from '../context.ts';
import { isLoopback } from '../../base/address.ts';
import { Failure, UsageError, printable, reasonOf } from '../../nodes/failure.ts';
import { membersOf } from '../../nodes/http-client.ts';
import { OUTPUT, wantsJson } from '../output.ts';
import { expectStatus } from '../streams/stream-client.ts';
import { DEFAULT_BUCKET, FLAT_ROUTE } from '../streams/stream-name.ts';

const DAY_SECONDS = 86_400;
const QUARTER_SECONDS = 900;
/** A signed token; anything else of a hostile node could drive the terminal. */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/;

export const sign: Verb = {
  name: 'sign',
  about: 'print a URL with a token that reads its stream, for EventSource and links',
  words: ['link'],
  examples: [
    "millracectl sign 'https://streams.example/shop/orders?live=sse&offset=now' --url https://streams.example",
    'millracectl sign http://127.0.0.1:4437/v1/stream/demo/log -o json',
  ],
  flags: {
    link: textFlag('URL', 'of a stream, its snapshots or bootstrap', { required: true }),
    for: { kind: 'seconds', about: 'how long it is valid', fallback: QUARTER_SECONDS, min: 1, max: DAY_SECONDS },
    ...OUTPUT,
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values, say, err } = context;
    const url = urlOf(values.required('link'));
    const { bucket, stream } = namedIn(url);
    const wish = {
      scopes: [{ bucket, stream, operations: ['read'] }],
      expires_in: Math.ceil(values.ms('for') / 1000),
      use: 'url',
    };
    // A URL may come from a page or a message. Elsewhere than on this host the operator says that the token may go there.
    const isNamed = values.text('url') !== undefined || values.text('config') !== undefined;
    if (!isNamed && !isLoopback(url.hostname.replaceAll(/[[\]]/g, '')))
      throw refused(
        url.href,
        `the token would go to ${url.origin}: name the nodes to ask, such as --url ${url.origin}, or use a context`,
      );
    const client = await openStreams(context, undefined, url.origin);
    const body = Buffer.from(JSON.stringify(wish));
    const answer = await client.call({ method: 'POST', path: '/__svc/tokens', body, mayRepeat: true });
    if (answer.status === 404) throw new Failure('the nodes sign no tokens: http.signing_key_file gives them a key');
    const made = membersOf(expectStatus(answer, printable(`${bucket}/${stream}`), 201).body.toString());
    const { id, token, expires_at: end } = made;
    if (typeof id !== 'string' || typeof token !== 'string' || typeof end !== 'string' || !TOKEN.test(token))
      throw new Failure('the node answered without a token');
    const query = url.search === '' ? `?access_token=${token}` : `${url.search}&access_token=${token}`;
    const signed = `${url.origin}${url.pathname}${query}`;
    if (wantsJson(values)) return say(JSON.stringify({ url: signed, id, expires_at: end }));
    err.say(`token ${printable(id)}, valid until ${printable(end)}:`);
    say(signed);
  },
};

function urlOf(text: string): URL {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) throw refused(text, 'expected an http:// or https:// address');
  const url = new URL(text);
  // Neither is part of what is printed, and a password belongs on no screen.
  if (url.username !== '' || url.password !== '' || url.hash !== '')
    throw refused(url.host, 'expected a URL without a user name, a password or a part behind #');
  if (url.searchParams.has('access_token')) throw refused(text, 'it has a token already');
  return url;
}

/** Below a stream, and read with such a token. */
const BELOW = /^(?:|snapshot(?:\/\d+)?|bootstrap)$/;

interface Named {
  readonly bucket: string;
  readonly stream: string;
}

/** As nodes read paths: on the flat route the first / ends the bucket, and on the bucketed one a segment is a name. */
function namedIn({ pathname, href }: URL): Named {
  if (pathname.startsWith(FLAT_ROUTE)) {
    const path = decoded(pathname.slice(FLAT_ROUTE.length), href);
    const at = path.indexOf('/');
    return named(at < 0 ? DEFAULT_BUCKET : path.slice(0, at), path.slice(at + 1), href);
  }
  const [, bucket = '', stream = '', ...below] = pathname.split('/');
  if (!BELOW.test(below.join('/'))) throw refused(href, 'it is not of a stream, its snapshots or bootstrap');
  return named(decoded(bucket, href), decoded(stream, href), href);
}

function named(bucket: string, stream: string, href: string): Named {
  if (bucket === '' || stream === '') throw refused(href, 'expected the path of a stream');
  if (bucket.startsWith('__') || stream.startsWith('__')) throw refused(href, 'names that begin with __ are reserved');
  // In a scope it would stand for all buckets.
  if (bucket === '*') throw refused(href, 'a bucket with this name cannot be signed for');
  return { bucket, stream };
}

function decoded(segment: string, href: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (error) {
    throw refused(href, reasonOf(error));
  }
}

function refused(url: string, reason: string): UsageError {
  return new UsageError(`sign ${printable(url)}: ${reason}`);
}
