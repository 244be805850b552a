/**
 * Files in the age format (https://age-encryption.org/v1). Each has a key of its own in its header, wrapped for every
 * recipient, so keys are rotated without writing a file again. Headers and keys are the work of the package
 * `age-encryption`, payloads that of payload.ts. No message names a key, because those of the package may.
 */
import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import type { Decrypter, Encrypter, Recipient } from 'age-encryption';
import { Payload, SALT_BYTES, TAG_BYTES } from './payload.ts';

/** Plain data: it goes to threads. Texts as `age-keygen` writes them. */
export interface AgeKeys {
  /** They open files. */
  readonly identities: readonly string[];
  /** New files are written for these; none: they are not encrypted. */
  readonly recipients: readonly string[];
}

/**
 *   no-key   no identity that is here opens it
 *   altered  it is not what was written
 *   unusable the keys themselves
 */
export type AgeFault = 'no-key' | 'altered' | 'unusable';

/** The message is the end of a sentence that begins with the name of the file. */
export class AgeError extends Error {
  readonly fault: AgeFault;

  constructor(fault: AgeFault, message: string) {
    super(message);
    this.name = 'AgeError';
    this.fault = fault;
  }
}

const FIRST_LINE = Buffer.from('age-encryption.org/v1\n');
/** So many bytes of a file tell whether it `isAge`. */
export const AGE_BYTES = FIRST_LINE.length;
/** The last line of a header begins so. */
const LAST_LINE = Buffer.from('\n--- ');
const LINE_END = 0x0a;
/** A header has a hundred bytes for each recipient, or 1.6 KiB for one that withstands quantum computers. */
export const HEADER_BYTES_MAX = 16 * 1024;

/** The beginning of a file that is read. */
export interface OpenedFile {
  readonly payload: Payload;
  /** Where the chunks begin. */
  readonly chunksAt: number;
}

/** The beginning of a file that is written: `front` goes in front of the chunks. */
export interface NewFile {
  readonly payload: Payload;
  readonly front: Uint8Array;
}

/** Whether a file that begins with these bytes is one of age. */
export function isAge(start: Uint8Array): boolean {
  return Buffer.from(start.buffer, start.byteOffset, start.length).subarray(0, FIRST_LINE.length).equals(FIRST_LINE);
}

/** Where the header ends; undefined: not within these bytes. */
export function headerEnd(start: Uint8Array): number | undefined {
  const text = Buffer.from(start.buffer, start.byteOffset, start.length);
  const last = text.indexOf(LAST_LINE);
  const end = last < 0 ? -1 : text.indexOf(LINE_END, last + LAST_LINE.length);
  return end < 0 ? undefined : end + 1;
}

export class Age {
  readonly #newEncrypter: () => Encrypter;
  readonly #decrypter: Decrypter;
  readonly #identities: number;
  /** Whether there is a recipient. */
  readonly seals: boolean;

  private constructor(newEncrypter: () => Encrypter, decrypter: Decrypter, keys: AgeKeys) {
    this.#newEncrypter = newEncrypter;
    this.#decrypter = decrypter;
    this.#identities = keys.identities.length;
    this.seals = keys.recipients.length > 0;
  }

  /** Throws AgeError for a key that is none. */
  static async of(keys: AgeKeys): Promise<Age> {
    // Loaded where it is used: it takes 17 MB.
    const { Decrypter, Encrypter } = await import('age-encryption');
    const decrypter = new Decrypter();
    addEach('identity', keys.identities, (one) => decrypter.addIdentity(one));
    const newEncrypter = (): Encrypter => {
      const encrypter = new Encrypter();
      addEach('recipient', keys.recipients, (one) => encrypter.addRecipient(one));
      return encrypter;
    };
    newEncrypter();
    return new Age(newEncrypter, decrypter, keys);
  }

  /** Throws AgeError when what is written would be too large a header, or, `both`, could not be read here. */
  async tryOut(wanted: 'both' | 'seal'): Promise<void> {
    const { front } = await this.begin();
    if (front.length > HEADER_BYTES_MAX)
      throw new AgeError('unusable', `the header for so many recipients has more than ${HEADER_BYTES_MAX} bytes`);
    if (wanted === 'seal') return;
    try {
      await this.open(front);
    } catch {
      throw new AgeError('unusable', 'none of the identities is that of a recipient');
    }
  }

  /** A new file with a new key. */
  async begin(): Promise<NewFile> {
    const encrypter = this.#newEncrypter();
    let fileKey = new Uint8Array();
    // The package tells the key of a file to the recipients only, so this is one.
    const listener: Recipient = {
      wrapFileKey: (key) => {
        fileKey = Uint8Array.from(key);
        return [];
      },
    };
    encrypter.addRecipient(listener);
    const empty = await encrypter.encrypt(new Uint8Array());
    const header = empty.subarray(0, empty.length - SALT_BYTES - TAG_BYTES);
    const salt = randomBytes(SALT_BYTES);
    return { payload: new Payload(fileKey, salt), front: Buffer.concat([header, salt]) };
  }

  /** `start`: at least the header and the salt of a file that `isAge`. Throws AgeError. */
  async open(start: Uint8Array): Promise<OpenedFile> {
    const end = headerEnd(start);
    if (end === undefined || start.length < end + SALT_BYTES)
      throw new AgeError('altered', 'its header has no end: it is cut off or altered');
    let fileKey: Uint8Array;
    try {
      fileKey = await this.#decrypter.decryptHeader(start.subarray(0, end));
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('no identity matched')))
        throw new AgeError('altered', 'its header is not what was written');
      const count = this.#identities;
      throw new AgeError(
        'no-key',
        `it is encrypted, and none of ${count} identities opens it: add the one that it was written for`,
      );
    }
    const chunksAt = end + SALT_BYTES;
    return { payload: new Payload(fileKey, start.subarray(end, chunksAt)), chunksAt };
  }
}

function addEach(what: string, keys: readonly string[], add: (key: string) => void): void {
  for (const [i, key] of keys.entries()) {
    try {
      add(key);
    } catch {
      throw new AgeError('unusable', `${what} ${i + 1} of ${keys.length} is not one of age`);
    }
  }
}
