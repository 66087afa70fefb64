import { Button } from '@mantine/core'
import { IconDownload } from '@tabler/icons-react'

const formats = [
  { format: 'csv', label: 'CSV' },
  { format: 'jsonl', label: 'JSON' },
]

/** Links to what a page shows as files. `hrefOf`: the address of the file of a format. */
export function ExportButtons({ hrefOf }: { hrefOf: (format: string) => string }) {
  return (
    <Button.Group>
      {formats.map(({ format, label }) => (
        <Button
          key={format}
          component="a"
          href={hrefOf(format)}
          download
          size="xs"
          variant="default"
          leftSection={<IconDownload size={14} aria-hidden />}
        >
          {label}
        </Button>
      ))}
    </Button.Group>
  )
}
