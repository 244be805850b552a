/** GET /__svc/openapi.json. */
import type { RequestContext } from '../request.ts';
import { type DocumentOptions, openApiDocument } from './document.ts';

/** Makes the document for the first request, and keeps it: it takes some milliseconds, and most nodes are never asked. */
export class OpenApiAnswer {
  readonly #options: DocumentOptions;
  #text: string | undefined;

  constructor(options: DocumentOptions) {
    this.#options = options;
  }

  write(call: RequestContext): void {
    const text = (this.#text ??= JSON.stringify(openApiDocument(this.#options)));
    call.respond((res) => call.responder.json(res, 200, text));
  }
}
