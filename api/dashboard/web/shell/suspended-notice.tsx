import { Alert } from '@mantine/core'
import { IconBan } from '@tabler/icons-react'

/** A notice that the organisation is suspended. */
export function SuspendedNotice() {
  return (
    <Alert color="red" variant="light" icon={<IconBan aria-hidden />} title="This organisation is suspended">
      Its API keys do not work, and nothing can be changed. Contact the operator of this service.
    </Alert>
  )
}
