/**
 * Large bodies to and from the nodes' admin planes. A transfer may take hours, and may rest: a disk is slow, a group
 * waits for a leader, a node paces an export. So silence alone ends none: after the timeout of a call the node is
 * asked something small, and only when it does not answer that either, it is gone.
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { Cluster } from '../../nodes/cluster.ts';
import type { ClusterNode } from '../../nodes/cluster-file.ts';
import { Failure, Interrupted } from '../../nodes/failure.ts';
import {
  type HttpReply,
  answerTo,
  causeOf,
  open,
  originOf,
  readReply,
  refusal,
  unreachable,
} from '../../nodes/http-client.ts';

export interface Download {
  readonly node: ClusterNode;
  readonly commitIndex: number;
  /** Throws a Failure when it ends early. */
  readonly pieces: AsyncIterable<Uint8Array>;
  cancel(): void;
}

/** It broke off; the node may know why (info.ts). */
export class EndedEarly extends Failure {}

/** Resolves when the headers are there. Throws a Failure. */
export async function download(cluster: Cluster, node: ClusterNode, path: string): Promise<Download> {
  const url = node.adminUrl + path;
  const request = open(cluster.options, { method: 'GET', url, headers: {}, signal: cluster.signal });
  request.end();
  const answer = await answerOf(cluster, node, request);
  if (answer.statusCode !== 200) throw new Failure(refusal(await readReply(answer, cluster.options)));
  const commitIndex = Number(answer.headers['x-svc-backup-commit-index'] ?? Number.NaN);
  if (answer.headers['x-svc-backup-format'] !== '1' || !Number.isSafeInteger(commitIndex)) {
    request.destroy();
    throw new Failure('what it sends is not a backup that this program knows');
  }
  return { node, commitIndex, pieces: piecesOf(cluster, node, answer), cancel: () => request.destroy() };
}

async function* piecesOf(cluster: Cluster, node: ClusterNode, answer: IncomingMessage): AsyncIterable<Uint8Array> {
  const origin = originOf(node.adminUrl);
  const iterator = (answer as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await whileAlive(cluster, node, iterator.next());
      if (next.done === true) break;
      yield next.value;
    }
  } catch (error) {
    if (cluster.signal.aborted) throw new Interrupted();
    if (error instanceof Failure) throw error;
    throw new EndedEarly(`${origin} ended the transfer early (${causeOf(error)})`, undefined, { cause: error });
  } finally {
    answer.destroy();
  }
  if (!answer.complete) throw new EndedEarly(`${origin} ended the transfer early`);
}

export interface BackupUpload {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Bytes of all pieces together. */
  readonly size: number;
  readonly pieces: AsyncIterable<Uint8Array>;
}

/** A node may answer before it has everything. */
export async function upload(
  cluster: Cluster,
  node: ClusterNode,
  { path, headers, size, pieces }: BackupUpload,
): Promise<HttpReply> {
  const url = node.adminUrl + path;
  const request = open(cluster.options, {
    method: 'POST',
    url,
    headers: { ...headers, 'content-length': size },
    signal: cluster.signal,
  });
  const poured = pour(request, pieces);
  try {
    // A failure in the source of the pieces ends it as well; the end of the pieces does not.
    const answer = await Promise.race([
      answerOf(cluster, node, request),
      poured.then(() => new Promise<never>(() => undefined)),
    ]);
    return await readReply(answer, cluster.options);
  } catch (error) {
    if (cluster.signal.aborted) throw new Interrupted();
    throw error instanceof SourceError ? error.cause : unreachable(url, error);
  } finally {
    request.destroy();
    await poured.catch(() => undefined);
  }
}

/** The pieces could not be had. */
class SourceError extends Error {}

async function pour(request: ClientRequest, pieces: AsyncIterable<Uint8Array>): Promise<void> {
  let answered = false;
  request.once('response', () => (answered = true));
  try {
    for await (const piece of pieces) {
      if (answered || request.destroyed) return;
      if (!request.write(piece)) await drained(request);
    }
  } catch (error) {
    throw new SourceError('', { cause: error });
  }
  request.end();
}

/** The request takes more, or will never. */
function drained(request: ClientRequest): Promise<void> {
  const EVENTS = ['drain', 'close', 'response'];
  return new Promise((resolve) => {
    const done = (): void => {
      for (const event of EVENTS) request.removeListener(event, done);
      resolve();
    };
    for (const event of EVENTS) request.once(event, done);
  });
}

async function answerOf(cluster: Cluster, node: ClusterNode, request: ClientRequest): Promise<IncomingMessage> {
  try {
    return await whileAlive(cluster, node, answerTo(request));
  } catch (error) {
    request.destroy();
    if (cluster.signal.aborted) throw new Interrupted();
    throw unreachable(node.adminUrl, error);
  }
}

/** Waits for as long as the node answers other calls. */
async function whileAlive<T>(cluster: Cluster, node: ClusterNode, work: Promise<T>): Promise<T> {
  const { timeoutMs } = cluster.options;
  const over = new AbortController();
  const ended = work.then(
    () => true,
    () => true,
  );
  try {
    for (;;) {
      const late = delay(timeoutMs, false, { signal: over.signal }).catch(() => true);
      if (await Promise.race([ended, late])) return await work;
      await cluster.call(node, 'GET', '/__svc/backup/info');
    }
  } finally {
    over.abort();
  }
}
