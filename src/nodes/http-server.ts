/** Parts that the servers of `console` and `exporter` share. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Address, formatAddress } from '../base/address.ts';
import { Failure, reasonOf } from './failure.ts';

/** Bounds of a request's head, and of the time that it takes. */
export const HEAD_LIMITS = { maxHeaderSize: 16 * 1024, headersTimeout: 10_000 } as const;

/** Resolves to the address, with the port that was taken. */
export async function listenOn(server: Server, { host, port }: Address): Promise<Address> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) =>
      reject(new Failure(`cannot listen on ${formatAddress({ host, port })}: ${reasonOf(error)}`)),
    );
    server.listen({ host, port }, resolve);
  });
  return { host, port: (server.address() as AddressInfo).port };
}

export async function closeServer(server: Server): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

/** Compares digests, so that time tells nothing of the length either. */
export function isSameSecret(sent: string, right: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(sent), digest(right));
}

export function answerText(response: ServerResponse, status: number, sentence: string): void {
  response.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  response.end(`${sentence}\n`);
}
