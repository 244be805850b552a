/**
 * Part of the build: the OpenAPI document of each plane, beside the module that serves it (src/http/api-document.ts).
 */
import { writeFileSync } from 'node:fs';
import { VERSION } from '../../src/config/version.ts';
import { API_DOCUMENTS } from '../../src/http/api-document.ts';
import { ADMIN_ROWS, CLIENT_ROWS } from '../../src/http/routes/table.ts';
import { openApiDocument } from './document.ts';

const rows = { client: CLIENT_ROWS, admin: ADMIN_ROWS };
for (const plane of ['client', 'admin'] as const)
  writeFileSync(API_DOCUMENTS[plane], JSON.stringify(openApiDocument({ rows, version: VERSION, plane })));
