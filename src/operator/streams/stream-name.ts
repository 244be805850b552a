/** BUCKET/STREAM as the tool and the flat routes write it. */
import { UsageError } from '../failure.ts';

export interface StreamName {
  readonly bucket: string;
  readonly stream: string;
  /** BUCKET/STREAM. */
  readonly text: string;
  /** Of the flat route: it reaches every name, also those that the bucketed routes use otherwise. */
  readonly path: string;
}

/** The first / ends the bucket; further ones belong to the stream. */
export function parseStreamName(text: string): StreamName {
  const at = text.indexOf('/');
  const [bucket, stream] = [text.slice(0, Math.max(at, 0)), text.slice(at + 1)];
  if (bucket === '' || stream === '') throw new UsageError(`${JSON.stringify(text)}: expected BUCKET/STREAM`);
  return streamName(bucket, stream);
}

export function streamName(bucket: string, stream: string): StreamName {
  const segments = stream.split('/').map(encodeURIComponent).join('/');
  return { bucket, stream, text: `${bucket}/${stream}`, path: `/v1/stream/${encodeURIComponent(bucket)}/${segments}` };
}

export function bucketPath(bucket: string): string {
  return `/${encodeURIComponent(bucket)}`;
}
