/** One request of the console's page, passed on to the admin plane of a node. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { ClusterNode } from '../../nodes/cluster-file.ts';
import { Failure } from '../../nodes/failure.ts';
import { type ClientOptions, answerTo, open, refusal, unreachable, wholeOf } from '../../nodes/http-client.ts';

export interface Passing {
  readonly node: ClusterNode;
  /** On the node's admin plane. */
  readonly path: string;
  readonly client: ClientOptions;
}

/** The page sends what a person types; uploads have the tool's other verbs. */
const BODY_BYTES_MAX = 1024 * 1024;
/** Longer than a purge is given by the tool. The page ends its requests itself, much sooner. */
const TIMEOUT_MS = 600_000;
const REQUEST_HEADERS = /^(content-type|if-none-match|stream-[a-z-]+|producer-[a-z-]+)$/;
const ANSWER_HEADERS = /^(content-type|etag|retry-after|allow|location|millrace-[a-z-]+|stream-[a-z-]+)$/;

/** The page asked for something that is not passed on. */
export class NotPassedOn extends Failure {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Rejects with a Failure that says why the node cannot be asked. */
export async function passOn(
  { node, path, client }: Passing,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { method = '' } = request;
  const tooLong = (): Error => new NotPassedOn(413, `a body of the console is at most ${BODY_BYTES_MAX} bytes`);
  const body = await wholeOf(request, BODY_BYTES_MAX, tooLong);
  const gone = new AbortController();
  const end = (): void => gone.abort();
  response.once('close', () => {
    client.signal.removeEventListener('abort', end);
    end();
  });
  // Not derived from it: the tool's signal would keep something of each request, and pages ask every other second.
  client.signal.addEventListener('abort', end, { once: true });
  const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const url = node.adminUrl + path;
  const headers = {
    ...only(request.headers, REQUEST_HEADERS),
    ...(hasBody(method) ? { 'content-length': body.length } : {}),
  };
  let answer: IncomingMessage;
  try {
    const outgoing = open(client, { method, url, headers, signal });
    const coming = answerTo(outgoing);
    outgoing.end(body);
    answer = await coming;
  } catch (error) {
    throw new Failure(`node ${node.id}: ${unreachable(url, error).message}`);
  }
  const status = answer.statusCode ?? 502;
  if (status === 401) {
    answer.resume();
    // To the page a 401 means the console's own key.
    throw new Failure(`node ${node.id}: ${refusal({ status, text: '', hadToken: client.token !== undefined })}`);
  }
  response.writeHead(status, {
    ...only(answer.headers, ANSWER_HEADERS),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    // The bytes of a stream stay data, also when a browser opens its address.
    'content-security-policy': "sandbox; default-src 'none'",
  });
  await pipeline(answer, response).catch((error: unknown) => {
    if (!gone.signal.aborted) throw error;
  });
}

function hasBody(method: string): boolean {
  return method === 'POST' || method === 'PUT';
}

function only(headers: IncomingMessage['headers'], wanted: RegExp): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value === 'string' && wanted.test(name)) kept[name] = value;
  }
  return kept;
}
