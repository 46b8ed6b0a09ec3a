import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts per key with Kafka Streams, an 8-byte count for every record, until it is killed.
 *
 * <p>Arguments: BROKERS INPUT OUTPUT APPLICATION DIR, then NAME=VALUE for each setting of Kafka Streams.
 */
public final class KafkaStreamsCounts {
    private KafkaStreamsCounts() {}

    public static void main(String[] arguments) throws IOException {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[3]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        for (int n = 5; n < arguments.length; n++) {
            String[] setting = arguments[n].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        // With its cache, several records of a key would have one output.
        builder.stream(arguments[1], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                .groupByKey()
                .count(Materialized.<byte[], Long, KeyValueStore<Bytes, byte[]>>as("counts").withCachingDisabled())
                .toStream()
                .to(arguments[2], Produced.with(Serdes.ByteArray(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        System.out.println("Kafka Streams " + version() + ", Java " + Runtime.version());
        streams.start();
    }

    private static String version() throws IOException {
        Properties properties = new Properties();
        try (InputStream in = KafkaStreams.class.getResourceAsStream("/kafka/kafka-streams-version.properties")) {
            properties.load(in);
        }
        return properties.getProperty("version");
    }
}
