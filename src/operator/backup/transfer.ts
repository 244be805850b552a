/**
 * Large bodies to and from the nodes' admin planes. A transfer may take hours; what has a bound is the time in which nothing
 * moves.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { type Cluster, causeOf, originOf, refusal } from '../cluster.ts';
import type { ClusterNode } from '../cluster-file.ts';
import { Failure, Interrupted } from '../failure.ts';

export interface Download {
  readonly node: ClusterNode;
  readonly commitIndex: number;
  /** Throws a Failure when it ends early. */
  readonly pieces: AsyncIterable<Uint8Array>;
  cancel(): void;
}

/** Answers when the headers are there. Throws a Failure. */
export async function download(cluster: Cluster, node: ClusterNode, path: string): Promise<Download> {
  const url = node.adminUrl + path;
  const answer = await send(cluster, 'GET', url, undefined);
  if (answer.statusCode !== 200)
    throw new Failure(refusal({ status: answer.statusCode ?? 0, text: await textOf(answer) }));
  const commitIndex = Number(answer.headers['x-svc-backup-commit-index'] ?? Number.NaN);
  if (answer.headers['x-svc-backup-format'] !== '1' || !Number.isSafeInteger(commitIndex)) {
    answer.destroy();
    throw new Failure('what it sends is not a backup that this program knows');
  }
  return {
    node,
    commitIndex,
    pieces: piecesOf(cluster, url, answer),
    cancel: () => {
      // Ended early on purpose: nobody listens any more.
      answer.on('error', () => undefined);
      answer.destroy();
    },
  };
}

async function* piecesOf(cluster: Cluster, url: string, answer: IncomingMessage): AsyncIterable<Uint8Array> {
  try {
    for await (const piece of answer as AsyncIterable<Uint8Array>) yield piece;
  } catch (error) {
    if (cluster.signal.aborted) throw new Interrupted();
    throw new Failure(`${originOf(url)} ended the transfer early (${causeOf(error)})`);
  }
  if (!answer.complete) throw new Failure(`${originOf(url)} ended the transfer early`);
}

export interface UploadReply {
  readonly status: number;
  readonly text: string;
}

/** Sends pieces of `size` bytes in all. A node may answer before it has everything. */
export async function upload(
  cluster: Cluster,
  node: ClusterNode,
  path: string,
  headers: Readonly<Record<string, string>>,
  size: number,
  pieces: AsyncIterable<Uint8Array>,
): Promise<UploadReply> {
  const answer = await send(cluster, 'POST', node.adminUrl + path, { headers, size, pieces });
  return { status: answer.statusCode ?? 0, text: await textOf(answer) };
}

interface Body {
  readonly headers: Readonly<Record<string, string>>;
  readonly size: number;
  readonly pieces: AsyncIterable<Uint8Array>;
}

function send(cluster: Cluster, method: string, url: string, body: Body | undefined): Promise<IncomingMessage> {
  const { timeoutMs, token, signal } = cluster.options;
  return new Promise((resolve, reject) => {
    const fail = (error: unknown): void => {
      if (signal.aborted) reject(new Interrupted());
      else if (error instanceof Failure) reject(error);
      else reject(new Failure(`${originOf(url)} cannot be reached (${causeOf(error)})`));
    };
    const request = (url.startsWith('https:') ? httpsRequest : httpRequest)(url, {
      method,
      signal,
      agent: false,
      timeout: timeoutMs,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { ...body.headers, 'content-length': body.size }),
      },
    });
    let answered = false;
    request.on('response', (answer) => {
      answered = true;
      resolve(answer);
    });
    request.on('timeout', () =>
      request.destroy(new Failure(`${originOf(url)} did not answer within ${timeoutMs / 1000} s`)),
    );
    request.on('error', fail);
    if (body === undefined) {
      request.end();
      return;
    }
    const pour = async (): Promise<void> => {
      for await (const piece of body.pieces) {
        if (answered || request.destroyed) return;
        if (!request.write(piece)) await drained(request);
      }
      request.end();
    };
    pour().catch((error: unknown) => {
      fail(error);
      request.destroy();
    });
  });
}

/** The request takes more, or will never. */
function drained(request: ReturnType<typeof httpRequest>): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      for (const event of ['drain', 'close', 'response']) request.removeListener(event, done);
      resolve();
    };
    for (const event of ['drain', 'close', 'response']) request.once(event, done);
  });
}

const TEXT_BYTES_MAX = 64 * 1024;

async function textOf(answer: IncomingMessage): Promise<string> {
  let text = '';
  try {
    for await (const piece of answer.setEncoding('utf8') as AsyncIterable<string>) {
      if (text.length < TEXT_BYTES_MAX) text += piece;
    }
  } catch {
    // What is there is shown.
  }
  return text;
}
