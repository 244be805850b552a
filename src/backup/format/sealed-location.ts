/**
 * A location whose files are encrypted, for keys of the operator. The manifest is encrypted too, in a shell of plain JSON
 * that tells earlier versions of this program why they cannot read it. It has the digests of all other files in it, so
 * no file can be replaced, by one of another backup for the same keys either.
 */
import { Buffer } from 'node:buffer';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { Age, AgeError, type AgeKeys } from '../../encryption/age.ts';
import { openBytes, openPieces, sealBytes, sealPieces } from '../../encryption/whole.ts';
import { Fault, check } from '../../stream/backup/fault.ts';
import { type Location, type LocationOptions, openLocation } from './location.ts';
import { MANIFEST, SEALED_FORMAT_VERSION } from './manifest.ts';

export interface BackupOptions extends LocationOptions {
  /** Undefined: the backup is not encrypted. */
  readonly keys?: AgeKeys | undefined;
}

/** Throws a Fault for an invalid location, or for keys that cannot be used. */
export async function openBackup(text: string, { keys, ...options }: BackupOptions): Promise<Location> {
  const location = await openLocation(text, options);
  return keys === undefined ? location : await SealedLocation.open(location, keys);
}

class SealedLocation implements Location {
  readonly text: string;
  readonly isSealed = true;
  readonly #location: Location;
  readonly #age: Age;

  private constructor(location: Location, age: Age) {
    this.text = location.text;
    this.#location = location;
    this.#age = age;
  }

  /** Throws a Fault for keys that cannot be used. */
  static async open(location: Location, keys: AgeKeys): Promise<Location> {
    try {
      const age = await Age.of(keys);
      if (age.seals) await age.tryOut('seal');
      return new SealedLocation(location, age);
    } catch (error) {
      throw faultOf('the keys cannot be used', error);
    }
  }

  claim(mark: string): Promise<boolean> {
    return this.#location.claim(mark);
  }

  release(mark: string): Promise<boolean> {
    return this.#location.release(mark);
  }

  sizeOf(name: string): Promise<number | undefined> {
    return this.#location.sizeOf(name);
  }

  async *read(name: string, size: number): AsyncIterable<Uint8Array> {
    const place = `${this.text}/${name}`;
    if (name === MANIFEST) {
      yield await this.#readManifest(size);
      return;
    }
    const stored = await this.#location.sizeOf(name);
    check(stored !== undefined, `${place} is not there`);
    let bytes = 0;
    try {
      for await (const piece of openPieces(this.#age, this.#location.read(name, stored))) {
        bytes += piece.length;
        yield piece;
      }
    } catch (error) {
      throw faultOf(place, error);
    }
    check(bytes === size, `${place} has ${bytes} bytes in it, not the ${size} of the manifest`);
  }

  async write(name: string, pieces: AsyncIterable<Uint8Array>): Promise<void> {
    if (name !== MANIFEST) return await this.#location.write(name, sealPieces(this.#age, pieces));
    const sealed = await sealBytes(this.#age, await buffer(pieces));
    const manifest = Buffer.from(sealed).toString('base64');
    const shell = { format_version: SEALED_FORMAT_VERSION, encryption: 'age', manifest };
    await this.#location.write(name, Readable.from([Buffer.from(`${JSON.stringify(shell, null, 2)}\n`)]));
  }

  endUnfinished(isOne: (name: string) => boolean, begunBeforeMs: number): Promise<number> {
    return this.#location.endUnfinished(isOne, begunBeforeMs);
  }

  close(): void {
    this.#location.close();
  }

  async #readManifest(size: number): Promise<Uint8Array> {
    const shell = await text(this.#location.read(MANIFEST, size));
    try {
      return await openBytes(this.#age, sealedIn(shell));
    } catch (error) {
      throw faultOf(MANIFEST, error);
    }
  }
}

function sealedIn(text: string): Uint8Array {
  let shell: unknown;
  try {
    shell = JSON.parse(text);
  } catch {
    check(false, `${MANIFEST} is not JSON`);
  }
  check(typeof shell === 'object' && shell !== null, `${MANIFEST} is not a manifest`);
  const { format_version: version, encryption, manifest } = shell as Readonly<Record<string, unknown>>;
  check(
    encryption !== undefined,
    'the backup is not encrypted, so others may have written it; leave out --identity-file to read it nevertheless',
  );
  const isOurs = version === SEALED_FORMAT_VERSION && encryption === 'age' && typeof manifest === 'string';
  check(isOurs, `${MANIFEST} is encrypted in a way that this program does not know; use a newer one`);
  return Buffer.from(manifest, 'base64');
}

function faultOf(where: string, error: unknown): unknown {
  return error instanceof AgeError ? new Fault(`${where}: ${error.message}`) : error;
}
