/** An object of unknown size, in parts: it exists when it is complete, and not at all when it is aborted. */
import type { S3Client } from '@aws-sdk/client-s3';
import type { Readable } from 'node:stream';
import { s3, storage } from './sdk.ts';

/** A part is held in memory. S3 allows 10,000 parts per object: 160 GiB. */
const PART_BYTES = 16 * 1024 * 1024;

export interface PartsUpload {
  readonly client: S3Client;
  readonly bucket: string;
  readonly key: string;
  readonly body: Readable;
  /** Bounds one request, including retries. */
  readonly bound: <T>(action: (signal: AbortSignal) => Promise<T>) => Promise<T>;
  readonly timeoutMs: number;
}

/** An object of one part is put with one request. */
export async function uploadParts({ client, bucket, key, body, bound, timeoutMs }: PartsUpload): Promise<void> {
  // The package neither bounds nor interrupts its requests, and would not wait for the abort of an upload that its own
  // signal ends. A request that fails ends the upload, and it does wait then: unfinished parts cost money.
  const send = (command: Parameters<S3Client['send']>[0]): Promise<unknown> =>
    command instanceof s3.AbortMultipartUploadCommand
      ? // The abort is sent even when the operator interrupts, so `bound` does not apply.
        client.send(command, { abortSignal: AbortSignal.timeout(timeoutMs) }).catch(() => undefined)
      : bound((abortSignal) => client.send(command, { abortSignal }));
  const bounded = new Proxy(client, {
    get: (target, name): unknown => (name === 'send' ? send : Reflect.get(target, name)),
  });
  const params = { Bucket: bucket, Key: key, Body: body };
  await new storage.Upload({ client: bounded, params, partSize: PART_BYTES, queueSize: 1 }).done();
}

/** Begun, and neither completed nor aborted: its parts are invisible and cost money. */
interface OpenUpload {
  readonly key: string;
  readonly id: string;
  /** By the store's clock. */
  readonly begunMs: number;
}

export async function openUploads(
  client: S3Client,
  bucket: string,
  prefix: string,
  abortSignal: AbortSignal,
): Promise<OpenUpload[]> {
  const found: OpenUpload[] = [];
  let after = {};
  for (;;) {
    const asked = new s3.ListMultipartUploadsCommand({ Bucket: bucket, Prefix: prefix, ...after });
    const page = await client.send(asked, { abortSignal });
    for (const { Key: key, UploadId: id, Initiated: begun } of page.Uploads ?? []) {
      if (key !== undefined && id !== undefined) found.push({ key, id, begunMs: begun?.getTime() ?? Date.now() });
    }
    if (page.IsTruncated !== true) return found;
    after = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker };
  }
}

export async function abortUpload(
  client: S3Client,
  bucket: string,
  { key, id }: OpenUpload,
  abortSignal: AbortSignal,
): Promise<void> {
  await client.send(new s3.AbortMultipartUploadCommand({ Bucket: bucket, Key: key, UploadId: id }), { abortSignal });
}
