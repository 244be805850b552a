// Answers, as the tests of the client look at them.
import { type MillraceStream, StreamError } from '../../src/client/client.ts';

export const textOf = (data: Uint8Array): string => Buffer.from(data).toString();

/** All that the stream holds now. */
export async function textIn(stream: MillraceStream): Promise<string> {
  let text = '';
  for await (const { data } of stream.follow({ live: false })) text += textOf(data);
  return text;
}

/** Status and code of the refusal that the promise ends with. */
export async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return 'no error';
  } catch (error) {
    return error instanceof StreamError ? `${error.status} ${error.code}` : String(error);
  }
}
