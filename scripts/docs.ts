/** `npm run docs`: writes the generated parts of the documents. */
import { readFileSync, writeFileSync } from 'node:fs';
import { GENERATED, withPart } from './generated.ts';

for (const part of GENERATED) writeFileSync(part.path, withPart(readFileSync(part.path, 'utf8'), part));
