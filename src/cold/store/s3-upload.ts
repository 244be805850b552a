/** An object of unknown size, in parts: it exists when it is complete, and not at all when it is aborted. */
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';

export class S3Upload {
  readonly #client: S3Client;
  readonly #place: { readonly Bucket: string; readonly Key: string };
  readonly #parts: { readonly ETag: string | undefined; readonly PartNumber: number }[] = [];
  #id = '';

  constructor(client: S3Client, bucket: string, key: string) {
    this.#client = client;
    this.#place = { Bucket: bucket, Key: key };
  }

  async begin(abortSignal: AbortSignal): Promise<void> {
    const answer = await this.#client.send(new CreateMultipartUploadCommand(this.#place), { abortSignal });
    this.#id = answer.UploadId ?? '';
  }

  /** At least 5 MiB, except for the last one; S3 allows 10,000 of them. */
  async part(body: Uint8Array, abortSignal: AbortSignal): Promise<void> {
    const PartNumber = this.#parts.length + 1;
    const part = { ...this.#place, UploadId: this.#id, PartNumber, Body: body, ContentLength: body.length };
    const answer = await this.#client.send(new UploadPartCommand(part), { abortSignal });
    this.#parts.push({ ETag: answer.ETag, PartNumber });
  }

  async complete(abortSignal: AbortSignal): Promise<void> {
    const MultipartUpload = { Parts: this.#parts };
    const whole = { ...this.#place, UploadId: this.#id, MultipartUpload };
    await this.#client.send(new CompleteMultipartUploadCommand(whole), { abortSignal });
  }

  async abort(abortSignal: AbortSignal): Promise<void> {
    await this.#client.send(new AbortMultipartUploadCommand({ ...this.#place, UploadId: this.#id }), { abortSignal });
  }
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
    const asked = new ListMultipartUploadsCommand({ Bucket: bucket, Prefix: prefix, ...after });
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
  await client.send(new AbortMultipartUploadCommand({ Bucket: bucket, Key: key, UploadId: id }), { abortSignal });
}
