/**
 * A folder that an export of a bucket fills: a file for each stream, and `export.ndjson`, which says which file is
 * which stream and is written last. Its first line is {"format":"millrace-export","version":1,"bucket":...}.
 */
import { existsSync, readFileSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Failure, reasonOf } from '../../nodes/failure.ts';
import { membersOf } from '../../nodes/http-client.ts';
import { isObject } from '../../nodes/report.ts';
import { syncFolder } from '../whole-file.ts';
import { digestOf, lifetimeIn } from './import-source.ts';

/** No file of a stream ends so. */
const INDEX = 'export.ndjson';
const FORMAT = 'millrace-export';
const VERSION = 1;
/** File systems take 255 bytes. */
const NAME_CHARS_MAX = 200;
const NAME_CHARS_KEPT = 150;

export type ExportedStream = Readonly<ReturnType<typeof streamIn>>;

export interface ExportIndex {
  readonly bucket: string;
  readonly streams: readonly ExportedStream[];
}

export function isExportFolder(folder: string): boolean {
  return existsSync(join(folder, INDEX));
}

/** Characters that no file name may have are escaped as in a URL. */
export function fileNameOf(stream: string, contentType: string): string {
  // Trailing dots and names such as NUL are for another day: no Windows here.
  const escaped = encodeURIComponent(stream).replaceAll('*', '%2A');
  const short = escaped.length <= NAME_CHARS_MAX ? escaped : `${escaped.slice(0, NAME_CHARS_KEPT)}~${digestOf(stream)}`;
  return `${short}${endingOf(contentType)}`;
}

function endingOf(contentType: string): string {
  if (/^application\/json\s*(;|$)/i.test(contentType)) return '.jsonl';
  return /^text\//i.test(contentType) ? '.txt' : '.bin';
}

export async function writeIndex(folder: string, { bucket, streams }: ExportIndex): Promise<void> {
  const path = join(folder, INDEX);
  try {
    const lines: object[] = [{ format: FORMAT, version: VERSION, bucket }];
    for (const { stream, contentType, file: name, isClosed, createHeaders } of streams)
      lines.push({ stream, content_type: contentType, file: name, closed: isClosed, headers: createHeaders });
    await writeFile(
      `${path}.part`,
      lines.map((line) => `${JSON.stringify(line)}\n`),
      { mode: 0o600, flush: true },
    );
    await rename(`${path}.part`, path);
    syncFolder(folder);
  } catch (error) {
    throw new Failure(`${path} cannot be written: ${reasonOf(error)}`);
  }
}

export function readIndex(folder: string): ExportIndex {
  const path = join(folder, INDEX);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new Failure(`${path} cannot be read: ${reasonOf(error)}`);
  }
  const [first = '', ...lines] = text.split('\n').filter((line) => line !== '');
  const { format, version, bucket } = membersOf(first);
  if (format !== FORMAT || typeof bucket !== 'string') throw new Failure(`${path} is not the index of an export`);
  if (version !== VERSION)
    throw new Failure(
      `${path} has version ${String(version)}; this program reads version ${VERSION}: take a newer one`,
    );
  return { bucket, streams: lines.map((line, i) => streamIn(`${path}, line ${i + 2}`, line)) };
}

function streamIn(where: string, line: string) {
  const { stream, content_type: contentType, file, closed, headers } = membersOf(line);
  const isWhole = typeof stream === 'string' && typeof contentType === 'string' && typeof file === 'string';
  // It becomes part of a path. The name of a stream may begin with a dot, and so may its file.
  if (!isWhole || /\/|^\.{0,2}$/.test(file)) throw new Failure(`${where} describes no stream`);
  const createHeaders = lifetimeIn(isObject(headers) ? headers : {});
  return { stream, contentType, file, isClosed: closed === true, createHeaders };
}
