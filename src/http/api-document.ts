/** GET /__svc/openapi.json. */
import { readFileSync } from 'node:fs';
import type { Handler } from './router.ts';

export type DocumentedPlane = 'client' | 'admin';

/** The build writes these files (scripts/openapi/build.ts). */
export const API_DOCUMENTS: Readonly<Record<DocumentedPlane, URL>> = {
  client: new URL('./openapi-client.json', import.meta.url),
  admin: new URL('./openapi-admin.json', import.meta.url),
};

/** Reads the file for the first request, because most nodes are never asked. */
export function serveApiDocument(plane: DocumentedPlane): Handler {
  let bytes: Uint8Array | undefined;
  return (call) => {
    const document = (bytes ??= readFileSync(API_DOCUMENTS[plane]));
    call.respond((res) => call.responder.json(res, 200, document));
  };
}
