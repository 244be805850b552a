/**
 * Deletes objects, in batches where the store supports them. A batch carries Content-MD5: stores with an older S3
 * protocol (Swift) require it, and the SDK's newer checksum is unknown to others.
 */
import type { S3Client } from '@aws-sdk/client-s3';
import { createHash } from 'node:crypto';
import { s3 } from './sdk.ts';
import { StoreError } from './store.ts';

/** A serialized request as the SDK's middleware sees it. */
interface HttpRequest {
  readonly headers: Record<string, string>;
  readonly body?: unknown;
}

/** Statuses of a store that does not support batches, or not in this form. */
const REFUSED: ReadonlySet<unknown> = new Set([400, 403, 405, 411, 501]);
/** Refusals that have nothing to do with batches; the reasons of a 403. */
const OF_THE_CALLER =
  /AccessDenied|SignatureDoesNotMatch|InvalidAccessKeyId|ExpiredToken|InvalidToken|RequestTimeTooSkewed/;

export async function removeBatch(
  client: S3Client,
  bucket: string,
  names: readonly string[],
  abortSignal: AbortSignal,
): Promise<void> {
  const command = new s3.DeleteObjectsCommand({
    Bucket: bucket,
    Delete: { Objects: names.map((Key) => ({ Key })), Quiet: true },
  });
  command.middlewareStack.add(
    (next) => (args) => {
      if (isHttpRequest(args.request)) useMd5(args.request);
      return next(args);
    },
    // After the SDK's own checksum, before the signature.
    { step: 'build', name: 'contentMd5', priority: 'low' },
  );
  const { Errors: errors = [] } = await client.send(command, { abortSignal });
  const first = errors.find(({ Code }) => Code !== 'NoSuchKey');
  if (first === undefined) return;
  const message = `${first.Key ?? ''}: ${first.Code ?? ''} ${first.Message ?? ''} (${errors.length} of ${names.length} not removed)`;
  throw new StoreError(first.Code === 'AccessDenied' ? 'denied' : 'unreachable', message);
}

export async function removeOne(
  client: S3Client,
  Bucket: string,
  Key: string,
  abortSignal: AbortSignal,
): Promise<void> {
  try {
    await client.send(new s3.DeleteObjectCommand({ Bucket, Key }), { abortSignal });
  } catch (error) {
    // S3 answers 204 for a missing key; other stores answer 404.
    if (statusOf(error) !== 404 || nameOf(error) === 'NoSuchBucket') throw error;
  }
}

/** The failure concerns batches as such: single deletes may work. */
export function refusesBatches(error: unknown): boolean {
  if (!(error instanceof StoreError) || error.cause === undefined) return false;
  return REFUSED.has(statusOf(error.cause)) && !OF_THE_CALLER.test(nameOf(error.cause));
}

function useMd5({ headers, body }: HttpRequest): void {
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) return;
  for (const name of Object.keys(headers)) {
    if (/^x-amz-(checksum-|sdk-checksum-)/i.test(name)) delete headers[name];
  }
  headers['content-md5'] = createHash('md5').update(body).digest('base64');
}

function isHttpRequest(value: unknown): value is HttpRequest {
  return typeof value === 'object' && value !== null && 'headers' in value;
}

function statusOf(error: unknown): number {
  const { $metadata: metadata } = (error ?? {}) as { readonly $metadata?: { readonly httpStatusCode?: number } };
  return metadata?.httpStatusCode ?? 0;
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : '';
}
