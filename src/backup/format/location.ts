/** Location of a backup: a directory, or `s3://bucket/prefix` with the credentials and region of the environment. */
import { type FileHandle, open, readdir, rename, stat, unlink } from 'node:fs/promises';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { Fault } from '../../stream/backup/fault.ts';
import { makeFolder, syncDirectory } from '../../cold/store/dir-store.ts';
import type { S3Options, S3Store } from '../../cold/store/s3-store.ts';
import { StoreError, readRange } from '../../cold/store/store.ts';
import { caughtCode, caughtMessage } from '../../base/caught.ts';

/** A part of a file that is read, held in memory. */
const PIECE_BYTES = 16 * 1024 * 1024;
/** A file in a directory is written in parts of this size. */
const WRITE_BYTES = 1024 * 1024;
/** Synced after so many bytes: a large backlog at once would delay other users of the disk, such as a node's log. */
const SYNC_BYTES = 8 * 1024 * 1024;
/** One request to the store, including retries. */
const S3_TIMEOUT_MS = 120_000;
const S3_RETRIES = 5;

export interface Location {
  /** As the operator wrote it. */
  readonly text: string;
  /** Files are encrypted: `sizeOf` tells of them as they lie there, and `read` takes the size of what is in them. */
  readonly isSealed?: true;
  /**
   * Whether the location is empty. A missing directory is created, and holds `mark` until that is written or
   * `release`d, so that only one of several concurrent calls gets true. Throws a Fault when it cannot be written.
   */
  claim(mark: string): Promise<boolean>;
  /** False: the mark could not be removed. */
  release(mark: string): Promise<boolean>;
  /** Undefined: there is no such file. */
  sizeOf(name: string): Promise<number | undefined>;
  /** The complete file; throws a Fault when it cannot be read or has another size. */
  read(name: string, size: number): AsyncIterable<Uint8Array>;
  /** The file exists when this returns, and not before. An exception from the pieces ends it without a file. */
  write(name: string, pieces: AsyncIterable<Uint8Array>): Promise<void>;
  /**
   * Aborts invisible unfinished writes of earlier attempts that began before the given time; returns their number.
   * Throws a Fault when that is not allowed.
   */
  endUnfinished(isOne: (name: string) => boolean, begunBeforeMs: number): Promise<number>;
  close(): void;
}

/** Name of a file in a directory until it is complete. */
export const unfinished = (name: string): string => `${name}.part`;

export interface LocationOptions {
  readonly signal: AbortSignal;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The text of a location is none. */
export class LocationFault extends Fault {}

/** Throws a LocationFault. */
export async function openLocation(text: string, { signal, env }: LocationOptions): Promise<Location> {
  if (!text.startsWith('s3://')) {
    // s3:/bucket is a typo, and would be a directory with a strange name.
    if (/^([a-z][a-z0-9+.-]*:\/\/|s3:)/i.test(text))
      throw new LocationFault(`${text}: a location is a directory or s3://bucket/prefix`);
    return new Directory(text);
  }
  // Credentials do not belong there, nor in a log or on a screen.
  if (/^s3:\/\/[^/]*@/.test(text))
    throw new LocationFault('s3://...@...: expected s3://bucket/prefix; credentials come from the environment');
  const [bucket = '', ...rest] = text.slice('s3://'.length).split('/');
  const prefix = rest.filter((part) => part !== '').join('/');
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket))
    throw new LocationFault(`${text}: expected s3://bucket/prefix`);
  // Some clients and stores resolve them, and look elsewhere.
  if (rest.some((part) => part === '.' || part === '..'))
    throw new LocationFault(`${text}: . and .. are no parts of a prefix`);
  const { S3Store: Store } = await import('../../cold/store/s3-store.ts');
  const endpoint = env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'];
  const options = {
    bucket,
    region: env['AWS_REGION'],
    endpoint,
    // Stores other than AWS rarely have a host name per bucket.
    pathStyle: endpoint !== undefined,
    credentials: credentialsIn(env),
    encryption: 'none' as const,
    kmsKeyId: undefined,
    timeoutMs: S3_TIMEOUT_MS,
    maxRetries: S3_RETRIES,
    connections: 4,
  };
  return new Bucket(text, new Store(options, prefix), signal);
}

/** Credentials of the environment. Without them the SDK looks for others, as those of a profile or of the machine. */
function credentialsIn(env: LocationOptions['env']): S3Options['credentials'] {
  // A variable may be there and empty.
  const [accessKeyId, secretAccessKey] = [env['AWS_ACCESS_KEY_ID'] ?? '', env['AWS_SECRET_ACCESS_KEY'] ?? ''];
  if (accessKeyId === '' || secretAccessKey === '') return undefined;
  return { accessKeyId, secretAccessKey, sessionToken: env['AWS_SESSION_TOKEN'] };
}

class Directory implements Location {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  async claim(mark: string): Promise<boolean> {
    return this.#say('cannot be used', async () => {
      await makeFolder(this.text);
      const names = await readdir(this.text);
      if (names.length > 0) return false;
      try {
        await (await open(join(this.text, unfinished(mark)), 'wx', 0o600)).close();
      } catch (error) {
        if (caughtCode(error) === 'EEXIST') return false;
        throw error;
      }
      return true;
    });
  }

  async release(mark: string): Promise<boolean> {
    try {
      await unlink(join(this.text, unfinished(mark)));
      return true;
    } catch (error) {
      return caughtCode(error) === 'ENOENT';
    }
  }

  async sizeOf(name: string): Promise<number | undefined> {
    try {
      return (await stat(join(this.text, name))).size;
    } catch (error) {
      if (caughtCode(error) === 'ENOENT') return undefined;
      throw new Fault(`${join(this.text, name)} cannot be read (${caughtMessage(error)})`);
    }
  }

  async *read(name: string, size: number): AsyncIterable<Uint8Array> {
    const path = join(this.text, name);
    const pieces = createReadStream(path, { highWaterMark: 1024 * 1024 }) as AsyncIterable<Uint8Array>;
    let bytes = 0;
    try {
      for await (const piece of pieces) {
        bytes += piece.length;
        yield piece;
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
      throw new Fault(`${path} cannot be read (${caughtMessage(error)})`);
    }
    if (bytes !== size) throw new Fault(`${path} has ${bytes} bytes now, and had ${size} before`);
  }

  async write(name: string, pieces: AsyncIterable<Uint8Array>): Promise<void> {
    const path = join(this.text, name);
    const part = unfinished(path);
    await this.#say('cannot be written', async () => {
      const file = await open(part, 'w', 0o600);
      try {
        await pour(file, pieces);
      } catch (error) {
        await unlink(part).catch(() => undefined);
        throw error;
      } finally {
        await file.close();
      }
      await rename(part, path);
      await syncDirectory(this.text);
    });
  }

  /** Files in a directory are always visible. */
  endUnfinished(): Promise<number> {
    return Promise.resolve(0);
  }

  close(): void {}

  async #say<T>(what: string, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      const [code, message] = [caughtCode(error), caughtMessage(error)];
      const isOfFileSystem = error instanceof StoreError || (code !== undefined && /^E[A-Z]+$/.test(code));
      if (!isOfFileSystem) throw error;
      throw new Fault(`${this.text} ${what} (${message})`);
    }
  }
}

/** Everything is on the disk when this returns. */
async function pour(file: FileHandle, pieces: AsyncIterable<Uint8Array>): Promise<void> {
  const held = new Uint8Array(WRITE_BYTES);
  let heldBytes = 0;
  let unsynced = 0;
  // Immediately, so that a listing shows that it has begun.
  let isFirst = true;
  const write = async (): Promise<void> => {
    await file.writeFile(held.subarray(0, heldBytes));
    unsynced += heldBytes;
    heldBytes = 0;
    if (unsynced < SYNC_BYTES) return;
    await file.datasync();
    unsynced = 0;
  };
  for await (const piece of pieces) {
    for (let at = 0; at < piece.length;) {
      const part = piece.subarray(at, at + WRITE_BYTES - heldBytes);
      held.set(part, heldBytes);
      heldBytes += part.length;
      at += part.length;
      if (heldBytes === WRITE_BYTES || isFirst) await write();
      isFirst = false;
    }
  }
  await write();
  await file.datasync();
}

class Bucket implements Location {
  readonly text: string;
  readonly #store: S3Store;
  readonly #signal: AbortSignal;

  constructor(text: string, store: S3Store, signal: AbortSignal) {
    this.text = text;
    this.#store = store;
    this.#signal = signal;
  }

  /** Concurrent calls cannot be detected: not every store has conditional writes. */
  async claim(): Promise<boolean> {
    return this.#say(async () => (await this.#store.list('', '', 1, this.#signal)).objects.length === 0);
  }

  release(): Promise<boolean> {
    return Promise.resolve(true);
  }

  async sizeOf(name: string): Promise<number | undefined> {
    return this.#say(async () => {
      const { objects } = await this.#store.list(name, '', 1, this.#signal);
      return objects.find(({ key }) => key === name)?.bytes;
    });
  }

  async *read(name: string, size: number): AsyncIterable<Uint8Array> {
    for (let at = 0; at < size; at += PIECE_BYTES) {
      const length = Math.min(PIECE_BYTES, size - at);
      yield await this.#say(() => readRange(this.#store, name, at, length, this.#signal));
    }
  }

  async write(name: string, pieces: AsyncIterable<Uint8Array>): Promise<void> {
    await this.#say(() => this.#store.putPieces(name, pieces, this.#signal));
  }

  async endUnfinished(isOne: (name: string) => boolean, begunBeforeMs: number): Promise<number> {
    return this.#say(() => this.#store.endUploads(isOne, begunBeforeMs, this.#signal));
  }

  close(): void {
    this.#store.close();
  }

  async #say<T>(action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      throw new Fault(`${this.text}: ${explainStoreError(error.message)}`);
    }
  }
}

/** Advice for the operator, by the error of S3 or its client; the first match is used. */
const STORE_ERRORS: readonly (readonly [RegExp, string])[] = [
  [/NoSuchBucket/, 'there is no such bucket'],
  [
    /CredentialsProviderError/,
    'there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE',
  ],
  [/Region is missing/, 'there is no region; set AWS_REGION'],
  [/ERR_INVALID_URL/, 'AWS_ENDPOINT_URL_S3 is not an address'],
  [/ExpiredToken|TokenRefreshRequired/, 'the credentials have expired'],
  [/SignatureDoesNotMatch|InvalidAccessKeyId|InvalidToken/, 'the store does not know these credentials'],
  [/AccessDenied|\b403\b/, 'these credentials are not allowed to do that'],
  [
    /PermanentRedirect|AuthorizationHeaderMalformed|IncorrectEndpoint|\b301\b/,
    'the bucket is in another region; set AWS_REGION',
  ],
  [/ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT/, 'the store cannot be reached'],
];

/** `message` is that of a StoreError, which may begin with the name of an object. */
function explainStoreError(message: string): string {
  const plain = message.replace(/^: /, '');
  const fix = STORE_ERRORS.find(([pattern]) => pattern.test(plain))?.[1];
  return fix === undefined ? plain : `${fix} (${plain})`;
}
