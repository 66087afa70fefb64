import { Accordion, Box, Grid, Paper, Stack } from '@mantine/core'
import type { ReactNode } from 'react'
import { Snippets } from '../../components/copy.tsx'
import { curlOf } from './curl.ts'
import type { PlainRequest } from './plain-request.ts'
import { nodeCode, pythonCode } from './request-code.ts'

const maxHeight = 380

/** `snippets`: code in place of a request that plain HTTP cannot make. */
type Shown = { request: PlainRequest } | Parameters<typeof Snippets>[0]

/** A tab's form beside its result, and the equivalent request. */
export function Panels({ form, result, ...shown }: { form: ReactNode; result: ReactNode } & Shown) {
  const snippets = 'request' in shown ? requestSnippets(shown.request) : shown.snippets
  return (
    <Grid gap="md">
      <Grid.Col span={{ base: 12, md: 5 }}>
        <Paper withBorder p="md">
          {form}
        </Paper>
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 7 }}>
        <Stack gap="md">
          {result}
          <Equivalent snippets={snippets} />
        </Stack>
      </Grid.Col>
    </Grid>
  )
}

/** The equivalent request in several languages. */
export function Equivalent(props: Parameters<typeof Snippets>[0]) {
  return (
    <Accordion variant="contained" defaultValue="code">
      <Accordion.Item value="code">
        <Accordion.Control>Equivalent request</Accordion.Control>
        <Accordion.Panel>
          <Box mah={maxHeight} style={{ overflowY: 'auto' }}>
            <Snippets {...props} />
          </Box>
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  )
}

/** The code of a request. */
export function requestSnippets(request: PlainRequest) {
  return [
    { language: 'curl', code: curlOf(request) },
    { language: 'Node.js', code: nodeCode(location.origin, request) },
    { language: 'Python', code: pythonCode(location.origin, request) },
  ]
}
