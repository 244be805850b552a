// Answers, as the tests of the client look at them.
import { StreamError } from '../../src/client/client.ts';

export const textOf = (data: Uint8Array): string => Buffer.from(data).toString();

/** Status and code of the refusal that the promise ends with. */
export async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return 'no error';
  } catch (error) {
    return error instanceof StreamError ? `${error.status} ${error.code}` : String(error);
  }
}
