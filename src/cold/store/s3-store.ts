/** Objects in a bucket of S3 or a compatible store. The SDK retries what may succeed. */
import type { S3Client, ServerSideEncryption } from '@aws-sdk/client-s3';
import { Readable } from 'node:stream';
import type { ObjectPage, StoreFailure } from '../ports.ts';
import { type ObjectStore, Parts, StoreError, checkKey } from './store.ts';
import { refusesBatches, removeBatch, removeOne } from './s3-remove.ts';
import { s3 } from './sdk.ts';
import { abortUpload, openUploads, uploadParts } from './s3-upload.ts';

export interface S3Options {
  readonly bucket: string;
  /** Undefined: from the environment, or us-east-1 when an endpoint is given. */
  readonly region: string | undefined;
  readonly endpoint: string | undefined;
  /** `https://endpoint/bucket/key` instead of `https://bucket.endpoint/key`. */
  readonly pathStyle: boolean;
  /** Undefined: those of the environment, as the SDK finds them. */
  readonly credentials:
    | { readonly accessKeyId: string; readonly secretAccessKey: string; readonly sessionToken: string | undefined }
    | undefined;
  readonly encryption: 'aes256' | 'aws-kms' | 'none';
  readonly kmsKeyId: string | undefined;
  /** Bound of one operation including retries. */
  readonly timeoutMs: number;
  readonly maxRetries: number;
  /** Concurrent connections to the store. */
  readonly connections: number;
}

/** A host that accepts no connection within this time is down. */
const CONNECT_MS_MAX = 3000;
/** S3's own bound for one request. */
const REMOVE_MAX = 1000;
/** Used where batches are refused; as many connections as a thread has. */
const SINGLY_AT_ONCE = 32;

export class S3Store implements ObjectStore {
  readonly place: string;
  readonly #client: S3Client;
  readonly #options: S3Options;
  /** '' or ends in a slash. */
  readonly #prefix: string;
  /** The store has refused batches as such, not their keys. */
  #deletesSingly = false;

  constructor(options: S3Options, root: string) {
    this.#options = options;
    this.#prefix = root === '' ? '' : `${root}/`;
    this.place = `s3://${options.bucket}/${this.#prefix}${options.endpoint === undefined ? '' : ` at ${options.endpoint}`}`;
    this.#client = new s3.S3Client({
      ...(options.endpoint === undefined ? {} : { endpoint: options.endpoint, region: 'us-east-1' }),
      ...(options.region === undefined ? {} : { region: options.region }),
      ...(options.credentials === undefined ? {} : { credentials: credentialsOf(options.credentials) }),
      forcePathStyle: options.pathStyle,
      maxAttempts: options.maxRetries + 1,
      retryMode: 'standard',
      // Every slice has its own BLAKE3, and stores other than AWS often reject the SDK's newer checksums.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      requestHandler: {
        connectionTimeout: Math.min(CONNECT_MS_MAX, options.timeoutMs),
        httpAgent: { maxSockets: options.connections },
        httpsAgent: { maxSockets: options.connections },
      },
    });
  }

  async put(key: string, body: Uint8Array): Promise<void> {
    checkKey(key);
    const { bucket, encryption, kmsKeyId } = this.#options;
    const command = new s3.PutObjectCommand({
      Bucket: bucket,
      Key: this.#prefix + key,
      Body: body,
      ContentLength: body.length,
      ...(encryption === 'none' ? {} : { ServerSideEncryption: ENCRYPTIONS[encryption] }),
      ...(kmsKeyId === undefined ? {} : { SSEKMSKeyId: kmsKeyId }),
    });
    await this.#send(key, (abortSignal) => this.#client.send(command, { abortSignal }));
  }

  /** Writes an object of unknown size. An exception of `pieces` passes and ends the upload without an object. */
  async putPieces(key: string, pieces: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
    checkKey(key);
    const { bucket, timeoutMs } = this.#options;
    const body = Readable.from(pieces);
    try {
      await uploadParts({
        ...{ client: this.#client, bucket, key: this.#prefix + key, body, timeoutMs },
        bound: (action) => this.#send(key, action, signal),
      });
    } catch (error) {
      throw error === body.errored ? error : toStoreError(key, error);
    }
  }

  /** Aborts open uploads of such objects that began before the given time; returns their number. */
  async endUploads(isOne: (key: string) => boolean, begunBeforeMs: number, signal: AbortSignal): Promise<number> {
    const { bucket } = this.#options;
    const all = await this.#send('', (one) => openUploads(this.#client, bucket, this.#prefix, one), signal);
    const abandoned = all.filter(
      ({ key, begunMs }) => begunMs < begunBeforeMs && isOne(key.slice(this.#prefix.length)),
    );
    let ended = 0;
    for (const upload of abandoned) {
      try {
        await this.#send(upload.key, (one) => abortUpload(this.#client, bucket, upload, one), signal);
        ended++;
      } catch (error) {
        // Another process has ended it.
        if (!(error instanceof StoreError && error.failure === 'missing')) throw error;
      }
    }
    return ended;
  }

  async read(key: string, offset: number, parts: Parts, signal?: AbortSignal): Promise<void> {
    await this.#fill(key, offset, parts, signal);
    parts.finish(key, offset);
  }

  async readUpTo(key: string, offset: number, bytesMax: number): Promise<Uint8Array<ArrayBuffer>> {
    const parts = new Parts([bytesMax]);
    await this.#fill(key, offset, parts);
    return (parts.parts[0] as Uint8Array<ArrayBuffer>).subarray(0, parts.filled);
  }

  /** As much as there is. */
  async #fill(key: string, offset: number, parts: Parts, signal?: AbortSignal): Promise<void> {
    checkKey(key);
    const command = new s3.GetObjectCommand({
      Bucket: this.#options.bucket,
      Key: this.#prefix + key,
      Range: `bytes=${offset}-${offset + parts.length - 1}`,
    });
    const action = async (abortSignal: AbortSignal): Promise<void> => {
      const { Body } = await this.#client.send(command, { abortSignal });
      await drain(Body as Readable, (bytes) => parts.add(key, bytes));
    };
    await this.#send(key, action, signal);
  }

  async list(prefix: string, after: string, limit: number, signal?: AbortSignal): Promise<ObjectPage> {
    const command = new s3.ListObjectsV2Command({
      Bucket: this.#options.bucket,
      Prefix: this.#prefix + prefix,
      MaxKeys: limit,
      ...(after === '' ? {} : { StartAfter: this.#prefix + after }),
    });
    const answer = await this.#send(prefix, (abortSignal) => this.#client.send(command, { abortSignal }), signal);
    const objects = (answer.Contents ?? []).map(({ Key = '', Size = 0, LastModified }) => ({
      key: Key.slice(this.#prefix.length),
      bytes: Size,
      writtenAtMs: LastModified?.getTime() ?? 0,
    }));
    return { objects, more: answer.IsTruncated === true };
  }

  async remove(keys: readonly string[]): Promise<void> {
    for (const key of keys) checkKey(key);
    const names = keys.map((key) => this.#prefix + key);
    for (let i = 0; i < keys.length; i += REMOVE_MAX) await this.#removeSome(names.slice(i, i + REMOVE_MAX));
  }

  async #removeSome(names: readonly string[]): Promise<void> {
    const { bucket: Bucket } = this.#options;
    const first = names[0] as string;
    if (!this.#deletesSingly) {
      try {
        return await this.#send(first, (one) => removeBatch(this.#client, Bucket, names, one));
      } catch (error) {
        if (!refusesBatches(error)) throw error;
        this.#deletesSingly = true;
      }
    }
    for (let i = 0; i < names.length; i += SINGLY_AT_ONCE) {
      const part = names.slice(i, i + SINGLY_AT_ONCE);
      await Promise.all(part.map((name) => this.#send(name, (one) => removeOne(this.#client, Bucket, name, one))));
    }
  }

  close(): void {
    this.#client.destroy();
  }

  async #send<T>(what: string, action: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const timeout = AbortSignal.timeout(this.#options.timeoutMs);
    try {
      return await action(signal === undefined ? timeout : AbortSignal.any([signal, timeout]));
    } catch (error) {
      if (!(error instanceof StoreError) && timeout.aborted) {
        throw new StoreError('unreachable', `${what}: no answer within ${this.#options.timeoutMs} ms`, {
          cause: error,
        });
      }
      throw toStoreError(what, error);
    }
  }
}

const ENCRYPTIONS: Readonly<Record<'aes256' | 'aws-kms', ServerSideEncryption>> = {
  aes256: 'AES256',
  'aws-kms': 'aws:kms',
};

function credentialsOf(given: NonNullable<S3Options['credentials']>): {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
} {
  const { accessKeyId, secretAccessKey, sessionToken } = given;
  return { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) };
}

function drain(body: Readable, take: (bytes: Uint8Array) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    body.on('data', (bytes: Uint8Array) => {
      try {
        take(bytes);
      } catch (error) {
        body.destroy(error as Error);
      }
    });
    body.on('end', resolve);
    body.on('error', reject);
    body.on('close', () => reject(new Error('the answer was cut')));
  });
}

/** The members of the SDK's errors that are read; all may be absent. */
interface SdkError {
  readonly name?: string;
  readonly message?: string;
  readonly code?: string;
  readonly Code?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** Statuses that may change on a retry. */
const LATER: ReadonlySet<unknown> = new Set([408, 409, 425, 429]);
const NOT_IMPLEMENTED = 501;

function toStoreError(what: string, error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const {
    name = '',
    message = '',
    code,
    $metadata,
  }: SdkError = typeof error === 'object' && error !== null ? error : {};
  const status = $metadata?.httpStatusCode;
  const failure = failureOf(name, message, status);
  if (failure === 'missing') return new StoreError(failure, `${what}: there is no such object`, { cause: error });
  // A store's XML names the problem; connection errors have a code, and AggregateError (several addresses) only that.
  const reason = [name === 'Error' ? '' : name, code ?? '', message]
    .filter((part, i, all) => part !== '' && part !== 'UnknownError' && all.indexOf(part) === i)
    .join(': ');
  return new StoreError(failure, `${what}: ${status === undefined ? '' : `${status} `}${reason}`, { cause: error });
}

function failureOf(name: string, message: string, status: number | undefined): StoreFailure {
  if (name === 'NoSuchBucket' || name === 'CredentialsProviderError') return 'denied';
  if (name === 'NoSuchKey' || name === 'NotFound') return 'missing';
  // The range starts after the end of the object.
  if (name === 'InvalidRange' || status === 416) return 'bad';
  if (status === undefined) return message === 'Region is missing' ? 'denied' : 'unreachable';
  if (status === 404) return 'missing';
  if (LATER.has(status) || (status >= 500 && status !== NOT_IMPLEMENTED)) return 'unreachable';
  return status >= 300 ? 'denied' : 'unreachable';
}
