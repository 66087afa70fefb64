import { javascriptOf, pythonOf } from './chat/formats/literals.ts'
import type { PlainRequest } from './plain-request.ts'

const quoted = (text: string) => JSON.stringify(text)
const indented = (code: string) => code.replaceAll('\n', '\n  ')

/** A request to a gateway in Node.js, as plain HTTP. */
export function nodeCode(origin: string, { path, body, form, output }: PlainRequest): string {
  const imports = [form && 'openAsBlob', output && 'writeFileSync'].filter(Boolean)
  const type = body ? `, 'content-type': 'application/json'` : ''
  return [
    ...(imports.length > 0 ? [`import { ${imports.join(', ')} } from 'node:fs'`, ''] : []),
    ...(form ? formLines(form) : []),
    `const response = await fetch('${origin}${path}', {`,
    `  method: 'POST',`,
    `  headers: { authorization: \`Bearer \${process.env.HEADGATE_API_KEY}\`${type} },`,
    body ? `  body: JSON.stringify(${indented(javascriptOf(body))}),` : '  body: form,',
    '})',
    'if (!response.ok) throw new Error(await response.text())',
    output
      ? `writeFileSync(${quoted(output)}, Buffer.from(await response.arrayBuffer()))`
      : 'console.log(await response.text())',
  ].join('\n')
}

function formLines({ file, fields }: NonNullable<PlainRequest['form']>): string[] {
  return [
    'const form = new FormData()',
    `form.set('file', await openAsBlob(${quoted(file)}), ${quoted(file)})`,
    ...Object.entries(fields).map(([name, value]) => `form.set(${quoted(name)}, ${quoted(value)})`),
  ]
}

/** A request to a gateway in Python, as plain HTTP. */
export function pythonCode(origin: string, { path, body, form, output }: PlainRequest): string {
  return [
    'import os',
    'import requests',
    '',
    'response = requests.post(',
    `    "${origin}${path}",`,
    `    headers={"Authorization": f"Bearer {os.environ['HEADGATE_API_KEY']}"},`,
    ...(body ? [`    json=${pythonOf(body, '    ')},`] : []),
    ...(form
      ? [`    files={"file": open(${quoted(form.file)}, "rb")},`, `    data=${pythonOf(form.fields, '    ')},`]
      : []),
    ')',
    'response.raise_for_status()',
    output ? `open(${quoted(output)}, "wb").write(response.content)` : 'print(response.text)',
  ].join('\n')
}
