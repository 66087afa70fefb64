import { SegmentedControl, Text } from '@mantine/core'
import { useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { SpanPicker, useTime } from '../../components/span.tsx'
import { Show } from '../../components/states.tsx'
import { Together } from '../../components/together.tsx'
import { environments } from '../../components/work/filters.tsx'
import { useActivity, useAttention } from '../usage/queries.ts'
import { SeriesChart, usualMeasure } from '../usage/series-chart.tsx'
import { Attention } from './attention.tsx'
import { FirstSteps } from './first-steps.tsx'
import { Health } from './health.tsx'
import { LowBalance } from './low-balance.tsx'
import { useOverview } from './queries.ts'
import { Tiles, Wallet } from './tiles.tsx'

/** Whether all is well, and what it costs. */
export default function Overview() {
  const [time, setTime] = useTime('7d')
  const [chosen, setEnvironment] = useFilter('environment')
  const choice = { ...time, environment: chosen }
  const overview = useOverview()
  const activity = useActivity(choice)
  const attention = useAttention(choice)
  const environment = activity.data?.environment ?? (chosen || 'live')
  return (
    <Page
      title="Overview"
      actions={
        <>
          <SegmentedControl
            size="xs"
            aria-label="Environment"
            data={environments}
            value={environment}
            onChange={setEnvironment}
          />
          <SpanPicker time={time} onChange={setTime} />
        </>
      }
    >
      <Together>
        <Show query={overview} rows={3}>
          {data => (
            <>
              <LowBalance overview={data} />
              <FirstSteps steps={data.first_steps} />
            </>
          )}
        </Show>
        {attention.data && <Attention attention={attention.data} environment={environment} />}
        {overview.data && <Wallet overview={overview.data} />}
        <Show query={activity} rows={4}>
          {data => (
            <>
              {chosen === '' && data.environment === 'test' && (
                <Text size="sm" c="dimmed">
                  There are no live requests in this time. These are the requests of test keys.
                </Text>
              )}
              <Tiles activity={data} />
              {data.total.requests > 0 && <Health activity={data} />}
            </>
          )}
        </Show>
        <SeriesChart choice={choice} usual={activity.data ? usualMeasure(activity.data) : 'cost'} />
      </Together>
    </Page>
  )
}
