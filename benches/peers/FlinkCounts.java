import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Counts per key with Flink in one process, an 8-byte count for every record, until it is killed. Goes on from the newest checkpoint in DIR.
 *
 * <p>Arguments: BROKERS INPUT OUTPUT APPLICATION DIR, then NAME=VALUE for each setting of Flink.
 */
public final class FlinkCounts {
    private FlinkCounts() {}

    public static void main(String[] arguments) throws Exception {
        String brokers = arguments[0];
        Path checkpoints = Path.of(arguments[4], "checkpoints");
        Path scratch = Path.of(arguments[4], "scratch");
        Files.createDirectories(checkpoints);
        Files.createDirectories(scratch);
        Map<String, String> settings = new HashMap<>();
        settings.put("execution.checkpointing.dir", checkpoints.toUri().toString());
        settings.put("io.tmp.dirs", scratch.toString());
        newest(checkpoints).ifPresent(path -> settings.put("execution.state-recovery.path", path.toUri().toString()));
        for (int n = 5; n < arguments.length; n++) {
            String[] setting = arguments[n].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        Configuration configuration = Configuration.fromMap(settings);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        KafkaSource<Long> source = KafkaSource.<Long>builder()
                .setBootstrapServers(brokers)
                .setTopics(arguments[1])
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setDeserializer(new Keys())
                .build();
        KafkaSink<Tuple2<Long, Long>> sink = KafkaSink.<Tuple2<Long, Long>>builder()
                .setBootstrapServers(brokers)
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(arguments[3])
                .setProperty("transaction.timeout.ms", "60000")
                .setRecordSerializer(new Outputs(arguments[2]))
                .build();
        environment
                .fromSource(source, WatermarkStrategy.noWatermarks(), "input")
                .uid("input")
                .keyBy(key -> key, Types.LONG)
                .process(new Counts())
                .uid("counts")
                .returns(Types.TUPLE(Types.LONG, Types.LONG))
                .sinkTo(sink)
                .uid("output");
        System.out.println("Flink " + EnvironmentInformation.getVersion() + ", its connector with kafka-clients "
                + AppInfoParser.getVersion() + ", Java " + Runtime.version());
        environment.execute("counts");
    }

    /** A checkpoint is whole when its metadata is there. */
    private static Optional<Path> newest(Path checkpoints) throws IOException {
        try (Stream<Path> files = Files.walk(checkpoints, 3)) {
            return files.filter(path -> path.endsWith("_metadata"))
                    .max(Comparator.comparingLong(path -> path.toFile().lastModified()))
                    .map(Path::getParent);
        }
    }

    private static final class Keys implements KafkaRecordDeserializationSchema<Long> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Long> out) {
            out.collect(ByteBuffer.wrap(record.key()).getLong());
        }

        @Override
        public TypeInformation<Long> getProducedType() {
            return Types.LONG;
        }
    }

    private static final class Counts extends KeyedProcessFunction<Long, Long, Tuple2<Long, Long>> {
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public void processElement(Long key, Context context, Collector<Tuple2<Long, Long>> out) throws Exception {
            Long before = count.value();
            long now = before == null ? 1 : before + 1;
            count.update(now);
            out.collect(Tuple2.of(key, now));
        }
    }

    private static final class Outputs implements KafkaRecordSerializationSchema<Tuple2<Long, Long>> {
        private final String topic;

        Outputs(String topic) {
            this.topic = topic;
        }

        @Override
        public ProducerRecord<byte[], byte[]> serialize(
                Tuple2<Long, Long> output, KafkaSinkContext context, Long timestamp) {
            byte[] key = ByteBuffer.allocate(8).putLong(output.f0).array();
            byte[] count = ByteBuffer.allocate(8).putLong(output.f1).array();
            return new ProducerRecord<>(topic, null, timestamp, key, count);
        }
    }
}
