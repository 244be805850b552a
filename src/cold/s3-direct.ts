/**
 * Sends a GET that the SDK has put together and signed over a connection of our own (http-get.ts), when the store is reached over
 * plain HTTP. The SDK goes on with the answer: it knows errors, and whether to repeat. Over TLS its own client is used.
 */
import type { GetObjectCommand } from '@aws-sdk/client-s3';
import { Readable } from 'node:stream';
import type { HttpGets } from './http-get.ts';

/** What is used of the SDK's request when all its headers are there. */
interface SignedRequest {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | readonly string[] | null>>;
  readonly headers: Readonly<Record<string, string>>;
}

/** `take` is told of the bytes of a success, from the first one again after `restart`. */
export function sendDirectly(
  command: GetObjectCommand,
  gets: HttpGets,
  take: (bytes: Uint8Array) => void,
  restart: () => void,
  signal: AbortSignal,
): void {
  command.middlewareStack.add(
    (next) => async (args) => {
      const { protocol, hostname, port = 80, path, query, headers } = args.request as SignedRequest;
      if (protocol !== 'http:') return next(args);
      const request = { hostname, port, path: path + queryOf(query), headers };
      const { body, ...answer } = await gets.get(request, take, restart, signal);
      // Of the command's own output nothing is known yet: the SDK makes it of this.
      return { response: { ...answer, body: Readable.from(body.length === 0 ? [] : [body]) } } as never;
    },
    // The last one of all, behind the signature.
    { step: 'deserialize', priority: 'low', name: 'directGet' },
  );
}

function queryOf(query: SignedRequest['query']): string {
  const parts = Object.entries(query ?? {}).flatMap(([name, value]) => {
    if (value === null) return [escape(name)];
    return [value].flat().map((one) => `${escape(name)}=${escape(one)}`);
  });
  return parts.length === 0 ? '' : `?${parts.join('&')}`;
}

/** As the signature counts it. */
function escape(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}
