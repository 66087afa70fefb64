import { Anchor } from '@mantine/core'

/** A link to what the documentation says about an error code. */
export function ErrorDocs({ code }: { code: string }) {
  return (
    <Anchor href={`/docs/errors#${encodeURIComponent(code)}`} underline="always" inherit>
      Documentation
    </Anchor>
  )
}
